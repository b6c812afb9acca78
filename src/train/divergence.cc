#include "train/divergence.h"

#include <mutex>

#include "kernels/kernels.h"

namespace tessera {

std::optional<BadTensor> find_first_nonfinite(Executor& executor, const StepParams& params,
                                              const Executor::Probe& also) {
  std::optional<BadTensor> first;
  std::mutex mutex;  // both streams look
  executor.set_probe([&](size_t index, const Instruction& instruction) {
    if (also) also(index, instruction);
    for (const BufferId id : instruction.outputs) {
      const int64_t at = kernels::first_nonfinite(executor.tensor(id));
      if (at < 0) continue;
      const std::scoped_lock lock(mutex);
      if (first.has_value() && first->instruction <= index) return;
      const std::string where = instruction.micro_batch < 0
                                    ? ""
                                    : fmt::format(", micro-batch {}", instruction.micro_batch);
      first = BadTensor{index, fmt::format("'{}' ({}, pass {}{}), element {}", instruction.name,
                                           instruction.op == OpKind::kCast
                                               ? collective_name(instruction.collective)
                                               : name_of(instruction.op),
                                           name_of(instruction.tag.pass), where, at)};
      return;
    }
  });
  executor.run(params);
  executor.set_probe({});
  return first;
}

}  // namespace tessera
