#include "compile/pipeline/schedule/schedule.h"

#include <fmt/format.h>

#include "compile/pipeline/schedule/named_schedule.h"
#include "spec/run_file/pipeline.h"

namespace tessera {
namespace {

int rank_of_stage(int stage, const PipelineShape& shape, StagePlacement placement) {
  if (placement == StagePlacement::kV && stage >= shape.ranks) return shape.stages() - 1 - stage;
  return stage % shape.ranks;
}

}  // namespace

PipelineSchedule make_schedule(std::string_view name, int ranks, int virtual_stages,
                               int micro_batches, int group) {
  return make_schedule(pipeline_kind(name), ranks, virtual_stages, micro_batches, group);
}

PipelineSchedule make_schedule(PipelineKind kind, int ranks, int virtual_stages, int micro_batches,
                               int group) {
  const PipelineShape shape = shape_of(kind, ranks, virtual_stages, micro_batches, group);
  const NamedSchedule& named = named_schedule(kind);
  PipelineSchedule schedule{.name = std::string(name_of(kind)),
                            .ranks = ranks,
                            .stages = shape.stages(),
                            .micro_batches = micro_batches,
                            .rank_of_stage = {},
                            .actions = {},
                            .asynchronous = schedule_kind(kind).asynchronous};
  for (int stage = 0; stage < shape.stages(); ++stage) {
    schedule.rank_of_stage.push_back(rank_of_stage(stage, shape, named.placement));
  }
  for (int rank = 0; rank < ranks; ++rank) {
    schedule.actions.push_back(named.actions(shape, rank));
  }
  return schedule;
}

char letter_of(StagePass pass) {
  switch (pass) {
    case StagePass::kForward:
      return 'F';
    case StagePass::kBackward:
      return 'B';
    case StagePass::kInputGrad:
      return 'I';
    case StagePass::kWeightGrad:
      return 'W';
  }
  return '?';
}

std::string cell_text(const StageAction& action) {
  return fmt::format("{}{}.{}", letter_of(action.pass), action.stage, action.micro_batch);
}

}  // namespace tessera
