#include "compile/pipeline/schedule/named_schedule.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.h"
#include "spec/run_file/pipeline.h"

namespace tessera {
namespace {

// What every schedule asks of its shape.
void check_shape(std::string_view name, const PipelineShape& shape) {
  const auto& [ranks, virtual_stages, micro_batches, group] = shape;
  require_config(ranks >= 1, "schedule {}: {} pipeline ranks; use at least 1", name, ranks);
  require_config(micro_batches >= 1, "schedule {}: {} micro-batches; use at least 1", name,
                 micro_batches);
  require_config(group >= 0, "schedule {}: schedule_group = {}; use at least 1, or 0 for {}", name,
                 group, ranks);
  const int64_t stages = int64_t{ranks} * virtual_stages;
  require_config(stages <= kMaxScheduleCells / micro_batches,
                 "schedule {}: {} stages of {} micro-batches are more than the {} that a schedule "
                 "is written out for; use at most {} micro-batches",
                 name, stages, micro_batches, kMaxScheduleCells,
                 std::max<int64_t>(1, kMaxScheduleCells / stages));
}

// Larger numbers are refused by shape_of, which takes int.
int limited(int64_t value) {
  return static_cast<int>(std::min<int64_t>(value, std::numeric_limits<int>::max()));
}

int64_t most_alive(const std::vector<StageAction>& actions) {
  int64_t alive = 0, most = 0;
  for (const StageAction& action : actions) {
    if (action.pass == StagePass::kForward) {
      most = std::max(most, ++alive);
    } else if (action.pass != StagePass::kInputGrad) {
      --alive;
    }
  }
  return most;
}

}  // namespace

const NamedSchedule& named_schedule(PipelineKind kind) {
#define TESSERA_DEFINED(enumerator, name, ...) define_schedule<PipelineKind::enumerator>(),
  static const auto kSchedules = std::to_array({TESSERA_SCHEDULES(TESSERA_DEFINED)});
#undef TESSERA_DEFINED
  return kSchedules[static_cast<size_t>(kind)];
}

PipelineShape shape_of(PipelineKind kind, int ranks, int virtual_stages, int micro_batches,
                       int group) {
  ParallelSpec asked;
  asked.schedule = kind;
  asked.virtual_stages = virtual_stages;
  resolve_schedule(asked);
  const PipelineShape shape{.ranks = ranks,
                            .virtual_stages = static_cast<int>(asked.virtual_stages),
                            .micro_batches = micro_batches,
                            .group = group == 0 ? ranks : group};
  check_shape(name_of(kind), shape);
  const NamedSchedule& schedule = named_schedule(kind);
  if (schedule.check != nullptr) schedule.check(shape);
  return shape;
}

int64_t live_micro_batches(PipelineKind kind, const PlaceInPipeline& at) {
  const NamedSchedule& schedule = named_schedule(kind);
  if (schedule.live != nullptr) return schedule.live(at);
  const PipelineShape shape = shape_of(kind, limited(at.ranks), limited(at.virtual_stages),
                                       limited(at.micro_batches), /*group=*/0);
  return most_alive(schedule.actions(shape, static_cast<int>(at.rank)));
}

double idle_share(PipelineKind kind, int64_t virtual_stages, double weight) {
  const NamedSchedule& schedule = named_schedule(kind);
  return schedule.idle != nullptr ? schedule.idle(virtual_stages, weight) : 1;
}

}  // namespace tessera
