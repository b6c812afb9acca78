// A descriptor that others may write to as well, and whose reader may be slow: lines wait in a
// bounded queue until they can be written without blocking.
#pragma once

#include <cstddef>
#include <string>

#include "launch/poll_set.h"
#include "launch/unique_fd.h"

namespace tessera {

class OutputSink {
 public:
  explicit OutputSink(int fd);

  // Append whole lines here, only while has_room().
  [[nodiscard]] std::string& queue() { return queue_; }
  [[nodiscard]] bool has_room() const { return queue_.size() < kQueueBytes; }
  [[nodiscard]] bool empty() const { return queue_.empty(); }

  void add_to(PollSet& set);
  // Writes what can be written now. What nobody can read any more is dropped.
  void write_ready(const PollSet& set);

 private:
  static constexpr size_t kQueueBytes = 256 * 1024;
  bool write_once();

  UniqueFd own_;  // the same file opened again so that a write returns instead of blocking
  int fd_;
  std::string queue_;
  size_t slot_ = PollSet::kNone;
  bool broken_ = false;
};

}  // namespace tessera
