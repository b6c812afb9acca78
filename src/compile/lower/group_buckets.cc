#include "compile/lower/group_buckets.h"

#include "base/step_params.h"

namespace tessera {
namespace {

// Whether `next` does to more buckets what `group` does to its own.
bool continues(const Program& program, const Instruction& group, const Instruction& next) {
  if (next.op != group.op || group.args.buckets.size() == kMostGroupedBuckets) return false;
  const auto same_type = [&](BufferId a, BufferId b) {
    return program.buffer(a).dtype == program.buffer(b).dtype;
  };
  if (next.op == OpKind::kSumSquares) {
    return next.outputs == group.outputs && same_type(next.inputs[0], group.inputs[0]);
  }
  return updates_weights(next.op) && next.inputs.back() == group.inputs.back() &&
         next.args.update == group.args.update && has_master(next) == has_master(group) &&
         has_whole_master(program, next) == has_whole_master(program, group) &&
         same_type(next.outputs[0], group.outputs[0]);
}

void append(Instruction& group, const Instruction& next) {
  const bool updates = updates_weights(next.op);  // the last input is common to all
  group.inputs.insert(group.inputs.end() - (updates ? 1 : 0), next.inputs[0]);
  if (updates) group.outputs.insert(group.outputs.end(), next.outputs.begin(), next.outputs.end());
  group.args.buckets.push_back(next.args.buckets[0]);
}

}  // namespace

void group_buckets(Program& program, std::vector<InstructionPlace>& places) {
  std::vector<Instruction>& list = program.instructions;
  size_t kept = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    if (kept > 0 && places[kept - 1].item == places[i].item &&
        continues(program, list[kept - 1], list[i])) {
      append(list[kept - 1], list[i]);
      continue;
    }
    if (kept != i) {
      list[kept] = std::move(list[i]);
      places[kept] = places[i];
    }
    ++kept;
  }
  list.resize(kept);
  places.resize(kept);
  for (Instruction& instruction : list) {
    const size_t more = instruction.args.buckets.size();
    if (more > 1) instruction.name += fmt::format(" and {} more", more - 1);
  }
}

}  // namespace tessera
