#include "compile/schedule/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/text.h"
#include "compile/schedule/generators.h"

namespace tessera {
namespace {

// Which rank holds a stage: round and round, or down and back again.
enum class StagePlacement : uint8_t { kLoop, kV };

struct Generator {
  std::string_view name;
  std::vector<StageAction> (*actions)(const PipelineShape& shape, int rank);
  int virtual_stages = 1;
  bool any_virtual_stages = false;  // else exactly `virtual_stages`
  StagePlacement placement = StagePlacement::kLoop;
  bool asynchronous = false;
  void (*check)(const PipelineShape& shape) = nullptr;
};

constexpr Generator kGenerators[] = {
    {"naive", naive_actions},
    {"gpipe", gpipe_actions},
    {"1f1b", one_f_one_b_actions},
    {.name = "interleaved",
     .actions = interleaved_actions,
     .virtual_stages = 2,
     .any_virtual_stages = true,
     .check = check_interleaved},
    {"zb-h1", zb_h1_actions},
    {"zb-h2", zb_h2_actions},
    {.name = "zb-v", .actions = zb_v_actions, .virtual_stages = 2, .placement = StagePlacement::kV},
    {.name = "dualpipe-v",
     .actions = dualpipe_v_actions,
     .virtual_stages = 2,
     .placement = StagePlacement::kV,
     .check = check_dualpipe_v},
    // PipeDream runs in the order of 1F1B; what differs is when weights change.
    {.name = "pipedream", .actions = one_f_one_b_actions, .asynchronous = true},
    {.name = "pipedream-2bw", .actions = one_f_one_b_actions, .asynchronous = true},
};

const Generator& find_generator(std::string_view name) {
  const auto* found = std::find_if(std::begin(kGenerators), std::end(kGenerators),
                                   [&](const Generator& g) { return g.name == name; });
  if (found != std::end(kGenerators)) return *found;
  throw ConfigError(fmt::format("unknown schedule {}; {}", in_quotes(name),
                                suggestion(name, schedule_names(), "schedules")));
}

int rank_of_stage(int stage, const PipelineShape& shape, StagePlacement placement) {
  if (placement == StagePlacement::kV && stage >= shape.ranks) return shape.stages() - 1 - stage;
  return stage % shape.ranks;
}

void check_shape(const Generator& generator, const PipelineShape& shape) {
  const auto& [ranks, virtual_stages, micro_batches, group] = shape;
  require_config(ranks >= 1, "schedule {}: {} pipeline ranks; use at least 1", generator.name,
                 ranks);
  require_config(micro_batches >= 1, "schedule {}: {} micro-batches; use at least 1",
                 generator.name, micro_batches);
  require_config(group >= 0, "schedule {}: schedule_group = {}; use at least 1, or 0 for {}",
                 generator.name, group, ranks);
  require_config(virtual_stages >= 1, "schedule {}: virtual_stages = {}; use at least 1",
                 generator.name, virtual_stages);
  require_config(
      generator.any_virtual_stages || virtual_stages == generator.virtual_stages,
      "schedule {} has {} stage{} per rank, but virtual_stages = {}; use virtual_stages = {}, or "
      "schedule = \"interleaved\"",
      generator.name, generator.virtual_stages, generator.virtual_stages == 1 ? "" : "s",
      virtual_stages, generator.virtual_stages);
  const int64_t stages = int64_t{ranks} * virtual_stages;
  require_config(stages <= kMaxScheduleCells / micro_batches,
                 "schedule {}: {} stages of {} micro-batches are more than the {} that a schedule "
                 "is written out for; use at most {} micro-batches",
                 generator.name, stages, micro_batches, kMaxScheduleCells,
                 std::max<int64_t>(1, kMaxScheduleCells / stages));
  if (generator.check != nullptr) generator.check(shape);
}

}  // namespace

PipelineSchedule make_schedule(std::string_view name, int ranks, int virtual_stages,
                               int micro_batches, int group) {
  const Generator& generator = find_generator(name);
  const PipelineShape shape{
      .ranks = ranks,
      .virtual_stages = virtual_stages == 0 ? generator.virtual_stages : virtual_stages,
      .micro_batches = micro_batches,
      .group = group == 0 ? ranks : group};
  check_shape(generator, shape);
  PipelineSchedule schedule{.name = std::string(name),
                            .ranks = ranks,
                            .stages = shape.stages(),
                            .micro_batches = micro_batches,
                            .rank_of_stage = {},
                            .actions = {},
                            .asynchronous = generator.asynchronous};
  for (int stage = 0; stage < shape.stages(); ++stage) {
    schedule.rank_of_stage.push_back(rank_of_stage(stage, shape, generator.placement));
  }
  for (int rank = 0; rank < ranks; ++rank) {
    schedule.actions.push_back(generator.actions(shape, rank));
  }
  return schedule;
}

std::vector<std::string_view> schedule_names() {
  std::vector<std::string_view> names;
  for (const Generator& generator : kGenerators) names.push_back(generator.name);
  return names;
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
