#include "sim/replay/roofline_times.h"

#include <algorithm>

#include "base/error.h"
#include "compile/program/instruction_cost.h"

namespace tessera {
namespace {

struct RingSteps {
  double messages = 0;  // that follow each other
  double bytes = 0;     // that a rank sends
};

RingSteps ring_steps(const Program& program, const Instruction& instruction, double ranks) {
  if (instruction.stream == StreamKind::kPipe) {
    return {1, static_cast<double>(program.buffer(instruction.inputs[0]).bytes())};
  }
  const auto in = static_cast<double>(program.buffer(instruction.inputs[0]).bytes());
  const auto out = static_cast<double>(program.buffer(instruction.outputs[0]).bytes());
  const double others = ranks - 1;
  switch (instruction.collective) {
    case CastKind::kAllReduce:
      return {2 * others, 2 * others / ranks * out};
    case CastKind::kAllGather:
      return {others, others * in};
    case CastKind::kReduceScatter:
      return {others, others * out};
    case CastKind::kAllToAll:
      return {others, others / ranks * in};
    case CastKind::kShift:
      return {1, in};
    case CastKind::kNothing:
    case CastKind::kSlice:
      break;
  }
  TESSERA_CHECK(false, "{} does not communicate", instruction.name);
}

}  // namespace

double RooflineTimes::kernel_s(const Program& program, const Instruction& instruction) const {
  const InstructionCost cost = cost_of(program, instruction);
  const auto bytes = static_cast<double>(cost.bytes_read + cost.bytes_written);
  const double work =
      std::max(static_cast<double>(cost.flops) / machine_.flops, bytes / machine_.memory_bandwidth);
  return std::max(work, machine_.launch_s);
}

TransferTime RooflineTimes::transfer(const Program& program, const Instruction& instruction,
                                     const std::vector<int>& ranks) const {
  int level = 0;
  const auto joins = [&](const RooflineLevel& at) {
    return at.devices == 0 || ranks.front() / at.devices == ranks.back() / at.devices;
  };
  while (level + 1 < num_levels() && !joins(machine_.levels[static_cast<size_t>(level)])) ++level;
  const RooflineLevel& links = machine_.levels[static_cast<size_t>(level)];
  const RingSteps steps = ring_steps(program, instruction, static_cast<double>(ranks.size()));
  return {steps.messages * links.latency_s, steps.bytes / links.bandwidth, level,
          machine_.kernel_share};
}

int RooflineTimes::link_of(int rank, int level) const {
  const RooflineLevel& links = machine_.levels[static_cast<size_t>(level)];
  if (!links.shared) return rank;
  return links.devices == 0 ? 0 : static_cast<int>(rank / links.devices);
}

}  // namespace tessera
