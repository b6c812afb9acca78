#include "compile/pipeline/schedule/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "compile/pipeline/schedule/generators.h"
#include "spec/run_file/pipeline.h"

namespace tessera {
namespace {

// Which rank holds a stage: round and round, or down and back again.
enum class StagePlacement : uint8_t { kLoop, kV };

// How the schedules of spec/run_file/pipeline.h are laid out.
struct Generator {
  PipelineKind kind;
  std::vector<StageAction> (*actions)(const PipelineShape& shape, int rank);
  StagePlacement placement = StagePlacement::kLoop;
  void (*check)(const PipelineShape& shape) = nullptr;
};

constexpr Generator kGenerators[] = {
    {PipelineKind::kNaive, naive_actions},
    {PipelineKind::kGPipe, gpipe_actions},
    {PipelineKind::k1F1B, one_f_one_b_actions},
    {PipelineKind::kInterleaved, interleaved_actions, StagePlacement::kLoop, check_interleaved},
    {PipelineKind::kZbH1, zb_h1_actions},
    {PipelineKind::kZbH2, zb_h2_actions},
    {PipelineKind::kZbV, zb_v_actions, StagePlacement::kV},
    {PipelineKind::kDualPipeV, dualpipe_v_actions, StagePlacement::kV, check_dualpipe_v},
    // PipeDream runs in the order of 1F1B; what differs is when weights change.
    {PipelineKind::kPipedream, one_f_one_b_actions},
    {PipelineKind::kPipedream2bw, one_f_one_b_actions},
};

const Generator& generator_of(PipelineKind kind) {
  const auto* found = std::find_if(std::begin(kGenerators), std::end(kGenerators),
                                   [&](const Generator& g) { return g.kind == kind; });
  TESSERA_CHECK(found != std::end(kGenerators), "schedule {} has no generator", name_of(kind));
  return *found;
}

int rank_of_stage(int stage, const PipelineShape& shape, StagePlacement placement) {
  if (placement == StagePlacement::kV && stage >= shape.ranks) return shape.stages() - 1 - stage;
  return stage % shape.ranks;
}

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

}  // namespace

PipelineSchedule make_schedule(std::string_view name, int ranks, int virtual_stages,
                               int micro_batches, int group) {
  return make_schedule(pipeline_kind(name), ranks, virtual_stages, micro_batches, group);
}

PipelineSchedule make_schedule(PipelineKind kind, int ranks, int virtual_stages, int micro_batches,
                               int group) {
  const std::string_view name = name_of(kind);
  ParallelSpec asked;
  asked.schedule = kind;
  asked.virtual_stages = virtual_stages;
  resolve_schedule(asked);
  const PipelineShape shape{.ranks = ranks,
                            .virtual_stages = static_cast<int>(asked.virtual_stages),
                            .micro_batches = micro_batches,
                            .group = group == 0 ? ranks : group};
  check_shape(name, shape);
  const Generator& generator = generator_of(kind);
  if (generator.check != nullptr) generator.check(shape);
  PipelineSchedule schedule{.name = std::string(name),
                            .ranks = ranks,
                            .stages = shape.stages(),
                            .micro_batches = micro_batches,
                            .rank_of_stage = {},
                            .actions = {},
                            .asynchronous = schedule_kind(kind).asynchronous};
  for (int stage = 0; stage < shape.stages(); ++stage) {
    schedule.rank_of_stage.push_back(rank_of_stage(stage, shape, generator.placement));
  }
  for (int rank = 0; rank < ranks; ++rank) {
    schedule.actions.push_back(generator.actions(shape, rank));
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
