// Times from a few numbers of a machine: a kernel takes the larger of its arithmetic and its bytes,
// a collective goes round a ring. For tests and for machines of which nothing else is known.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/replay/times.h"

namespace tessera {

// Groups of `devices` consecutive ranks are joined at a level.
struct RooflineLevel {
  int64_t devices = 0;   // 0: all
  double bandwidth = 0;  // bytes/s, of each rank and direction
  double latency_s = 0;  // of one message
  bool shared = false;   // one link for all of a group
};

struct RooflineMachine {
  double flops = 0;                        // per second
  double memory_bandwidth = 0;             // bytes/s
  double launch_s = 0;                     // the least time of a kernel
  std::vector<RooflineLevel> levels = {};  // innermost first; the last joins all
  double kernel_share = 0;                 // of kernels' speed, lost while bytes are on the wire
};

class RooflineTimes : public Times {
 public:
  explicit RooflineTimes(RooflineMachine machine) : machine_(std::move(machine)) {}

  [[nodiscard]] double kernel_s(const Program& program,
                                const Instruction& instruction) const override;
  [[nodiscard]] TransferTime transfer(const Program& program, const Instruction& instruction,
                                      const std::vector<int>& ranks) const override;
  [[nodiscard]] int num_levels() const override { return static_cast<int>(machine_.levels.size()); }
  [[nodiscard]] int link_of(int rank, int level) const override;

 private:
  RooflineMachine machine_;
};

}  // namespace tessera
