// For how long an agent that hears nothing may let its ranks run. Pure.
//
// The agent counts from when it sent the last word that was answered, the coordinator from when it
// got the last word at all, which is later. The agent ends its ranks `margin` before its count is
// over, so they are gone when the coordinator's is.
#pragma once

#include <algorithm>
#include <chrono>

namespace tessera {

struct Lease {
  std::chrono::milliseconds time{5'000};

  [[nodiscard]] std::chrono::milliseconds margin() const {
    return std::min<std::chrono::milliseconds>(std::chrono::seconds(1), time / 5);
  }
  [[nodiscard]] std::chrono::milliseconds fence_after() const { return time - margin(); }
  [[nodiscard]] std::chrono::milliseconds renew_every() const { return time / 10; }
};

}  // namespace tessera
