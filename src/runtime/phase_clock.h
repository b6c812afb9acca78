// How long the compute stream of a rank works on each pass of a step: its kernels, without what it
// waits for. On devices that run kernels by themselves it is only the time to hand them over.
// Written by the thread of the compute stream.
#pragma once

#include <array>
#include <chrono>

#include "graph/op.h"

namespace tessera {

inline constexpr size_t kNumPasses = static_cast<size_t>(Pass::kRecompute) + 1;
using PassSeconds = std::array<double, kNumPasses>;  // by Pass

class PhaseClock {
 public:
  using Clock = std::chrono::steady_clock;

  void add(Pass pass, Clock::duration time) {
    if (counts_) times_[static_cast<size_t>(pass)] += time;
  }
  // Whether time counts from now on. Only between steps.
  void count(bool on) { counts_ = on; }

  // Since the start. Only between steps.
  [[nodiscard]] PassSeconds seconds() const {
    PassSeconds all{};
    for (size_t i = 0; i < kNumPasses; ++i) {
      all[i] = std::chrono::duration<double>(times_[i]).count();
    }
    return all;
  }

 private:
  bool counts_ = true;
  std::array<Clock::duration, kNumPasses> times_{};
};

}  // namespace tessera
