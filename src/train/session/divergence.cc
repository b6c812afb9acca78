#include "train/session/divergence.h"

#include <mutex>
#include <nlohmann/json.hpp>

#include "kernels/movement.h"

namespace tessera {

std::optional<BadTensor> find_first_nonfinite(Executor& executor, const StepParams& params,
                                              const Executor::Probe& also) {
  std::optional<BadTensor> first;
  std::mutex mutex;  // both streams look
  executor.set_probe([&](size_t index, const Instruction& instruction) {
    if (also) also(index, instruction);
    for (const BufferId id : instruction.outputs) {
      const int64_t at = kernels::first_nonfinite(executor.view(id).tensor);
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

bool weights_are_finite(const Executor& executor) {
  for (const BucketBuffers& bucket : executor.program().buckets) {
    if (bucket.weights == kNoBuffer) continue;
    if (kernels::first_nonfinite(executor.view(bucket.weights).tensor) >= 0) return false;
  }
  return true;
}

std::optional<FoundTensor> first_over_ranks(Communicator& control,
                                            const std::optional<BadTensor>& mine) {
  nlohmann::json report;
  if (mine.has_value()) {
    report = {{"instruction", mine->instruction}, {"description", mine->description}};
  }
  const std::vector<std::string> reports = exchange_texts(control, report.dump());
  std::optional<FoundTensor> first;
  for (int rank = 0; rank < control.size(); ++rank) {
    const auto found = nlohmann::json::parse(reports[static_cast<size_t>(rank)]);
    if (found.is_null()) continue;
    const auto instruction = found.at("instruction").get<size_t>();
    if (first.has_value() && first->tensor.instruction <= instruction) continue;
    first = {rank, {instruction, found.at("description").get<std::string>()}};
  }
  return first;
}

std::string describe_divergence(const std::optional<FoundTensor>& first, const StepOutcome& outcome,
                                int64_t skipped_in_a_row, const Mesh& mesh) {
  const std::string skipped =
      skipped_in_a_row == 0
          ? ""
          : fmt::format(
                "{} (train.spike_limit), of the last ",
                skipped_in_a_row == 1
                    ? "1 step was skipped"
                    : fmt::format("{} steps one after another were skipped", skipped_in_a_row));
  if (!first.has_value()) {
    return fmt::format("{}the loss is {} and the norm of the gradient {}", skipped, outcome.loss,
                       outcome.grad_norm);
  }
  return fmt::format("{}the first tensor that is not finite is {} on rank {} ({})", skipped,
                     first->tensor.description, first->rank, mesh.describe(first->rank));
}

}  // namespace tessera
