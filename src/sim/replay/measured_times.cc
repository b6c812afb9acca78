#include "sim/replay/measured_times.h"

#include "compile/program/instruction_cost.h"

namespace tessera {

double MeasuredTimes::kernel_s(const Program& program, const Instruction& instruction) const {
  return tessera::kernel_s(machine_, program, instruction);
}

TransferTime MeasuredTimes::transfer(const Program& program, const Instruction& instruction,
                                     const std::vector<int>& ranks) const {
  const TimeTerms seconds = collective_seconds(machine_, communication_name(instruction),
                                               ranks_are_, static_cast<int>(ranks.size()));
  const double call = seconds[static_cast<size_t>(TimeTerm::kCall)];
  return {call, seconds_of(transfer_terms(program, instruction), seconds) - call, 0};
}

double MeasuredTimes::core_slowdown(const Instruction& instruction, int threads) const {
  return slowdown(machine_, threads, class_of(instruction.op));
}

}  // namespace tessera
