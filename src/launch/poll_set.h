// The descriptors that one round of an event loop waits for.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <vector>

namespace tessera {

class PollSet {
 public:
  static constexpr size_t kNone = static_cast<size_t>(-1);

  void clear() { entries_.clear(); }
  // Returns the slot to ask ready() about.
  size_t add(int fd, short events) {
    entries_.push_back({.fd = fd, .events = events, .revents = 0});
    return entries_.size() - 1;
  }
  // Returns when a descriptor is ready, a signal was handled or the time is over.
  void wait(std::chrono::milliseconds time);
  // Hang-ups and errors count as ready: the read or write that follows says which.
  [[nodiscard]] bool ready(size_t slot) const {
    return slot != kNone && entries_[slot].revents != 0;
  }

 private:
  std::vector<pollfd> entries_;
};

}  // namespace tessera
