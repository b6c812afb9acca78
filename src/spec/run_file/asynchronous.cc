#include "spec/run_file/asynchronous.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.h"
#include "spec/nearby.h"
#include "spec/run_file/pipeline.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

// Two versions are enough when a group is at least as long as the pipeline is deep: the update of a
// group is then made before the forward that reads it begins. A step of one group has one version.
bool can_be_group(int64_t group, int64_t micro_batches, int64_t stages) {
  return micro_batches % group == 0 && group >= std::min(stages, micro_batches);
}

int64_t smallest_group(int64_t micro_batches, int64_t stages) {
  int64_t group = std::min(stages, micro_batches);
  while (!can_be_group(group, micro_batches, stages)) ++group;
  return group;
}

void check_group(const RunSpec& spec) {
  const int64_t stages = spec.parallel.pp;
  const int64_t micro_batches = accumulation(spec);
  const int64_t group = spec.parallel.schedule_group;
  if (group == 0 || can_be_group(group, micro_batches, stages)) return;
  std::vector<int64_t> near = nearby_divisors(micro_batches, group);
  std::erase_if(near, [&](int64_t g) { return !can_be_group(g, micro_batches, stages); });
  if (near.empty()) near = {smallest_group(micro_batches, stages)};
  throw ConfigError(fmt::format(
      "parallel.schedule_group = {}: with pipedream-2bw the group of an update divides the {} "
      "micro-batches of a step and is at least pp = {}; use schedule_group = {}",
      group, micro_batches, stages, either(near)));
}

}  // namespace

bool is_asynchronous(const ParallelSpec& parallel) {
  const std::optional<PipelineKind> kind = parallel.schedule.kind();
  return kind && schedule_kind(*kind).asynchronous;
}

int64_t micro_batches_per_update(const RunSpec& spec) {
  const ParallelSpec& parallel = spec.parallel;
  const int64_t micro_batches = accumulation(spec);
  const std::optional<PipelineKind> kind = parallel.schedule.kind();
  if (!kind) return micro_batches;
  const bool says_group = *kind == PipelineKind::kPipedream2bw && parallel.schedule_group > 0;
  return says_group ? parallel.schedule_group
                    : micro_batches_per_update(*kind, micro_batches, parallel.pp);
}

int64_t micro_batches_per_update(PipelineKind kind, int64_t micro_batches, int64_t stages) {
  if (!schedule_kind(kind).asynchronous) return micro_batches;
  return kind == PipelineKind::kPipedream2bw ? smallest_group(micro_batches, stages) : 1;
}

void check_asynchronous(const RunSpec& spec) {
  const ParallelSpec& parallel = spec.parallel;
  if (!is_asynchronous(parallel)) return;
  require_config(spec.optimizer.clip == 0,
                 "optimizer.clip = {}: with schedule = \"{}\" a stage updates before the other "
                 "stages have their gradients, so that no norm over all of them exists; use clip = "
                 "0, or schedule = \"1f1b\"",
                 spec.optimizer.clip, parallel.schedule.text());
  require_config(!spec.model.tied || parallel.pp == 1,
                 "model.tied = true: with schedule = \"{}\" the first and the last stage are at "
                 "different versions of the shared embedding when they would add up its gradient; "
                 "use tied = false, or schedule = \"1f1b\"",
                 parallel.schedule.text());
  require_config(spec.train.dtype != DType::kF16,
                 "train.dtype = \"f16\": an overflow is known when the step ends, but schedule = "
                 "\"{}\" has updated by then; use dtype = \"bf16\", or schedule = \"1f1b\"",
                 parallel.schedule.text());
  require_config(
      parallel.release_after_forward || parallel.zero < 3,
      "parallel.release_after_forward = false: with schedule = \"{}\" micro-batches of a "
      "step read different versions of the weights, so that gathered ones cannot be kept "
      "for the step; use release_after_forward = true, or zero = 2",
      parallel.schedule.text());
  if (parallel.schedule == PipelineKind::kPipedream2bw) check_group(spec);
}

}  // namespace tessera
