// A count of arrivals that the ranks of a group wait on, phase after phase. A phase is complete
// when every rank has arrived in it; `target` is the count at that point (ranks * phases so far)
// and may wrap. A rank that gives up withdraws: from then on no phase completes, so no peer can act
// on an arrival that its rank has taken back.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "tensor/wait.h"

namespace tessera {

class Arrivals {
 public:
  // Counts the calling rank in. Everything it wrote before is visible to whoever sees the phase
  // complete. The last arrival wakes the sleepers.
  void arrive(uint32_t target);

  WaitResult wait(uint32_t target, const AbortFlag* abort, std::chrono::milliseconds timeout);

  // For a rank that has arrived: false when the phase is complete, and the rank must take part.
  [[nodiscard]] bool withdraw(uint32_t target);

 private:
  alignas(64) std::atomic<uint32_t> count_{0};
  std::atomic<uint32_t> sleepers_{0};
};

}  // namespace tessera
