// Times of instructions on a machine that was calibrated (cost/hardware/measured_machine.h), for
// ranks that share it. Pure.
#pragma once

#include <string>

#include "cost/hardware/measured_machine.h"
#include "sim/replay/times.h"

namespace tessera {

class MeasuredTimes : public Times {
 public:
  // `ranks_are`: "threads" of one process, or "processes". `machine` must outlive this.
  MeasuredTimes(const MeasuredMachine& machine, std::string ranks_are)
      : machine_(machine), ranks_are_(std::move(ranks_are)) {}

  [[nodiscard]] double kernel_s(const Program& program,
                                const Instruction& instruction) const override;
  [[nodiscard]] TransferTime transfer(const Program& program, const Instruction& instruction,
                                      const std::vector<int>& ranks) const override;
  [[nodiscard]] int num_levels() const override { return 1; }
  [[nodiscard]] bool shares_cores() const override { return true; }
  [[nodiscard]] double core_slowdown(const Instruction& instruction, int threads) const override;

 private:
  const MeasuredMachine& machine_;
  std::string ranks_are_;
};

}  // namespace tessera
