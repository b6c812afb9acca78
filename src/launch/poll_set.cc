#include "launch/poll_set.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace tessera {

void PollSet::wait(std::chrono::milliseconds time) {
  constexpr int64_t kLongest = 60'000;
  const auto milliseconds =
      static_cast<int>(std::clamp<int64_t>(static_cast<int64_t>(time.count()), 0, kLongest));
  const int ready = ::poll(entries_.data(), entries_.size(), milliseconds);
  if (ready >= 0) return;
  for (pollfd& entry : entries_) entry.revents = 0;
  TESSERA_CHECK(errno == EINTR, "poll of {} descriptors: {}", entries_.size(),
                std::strerror(errno));
}

}  // namespace tessera
