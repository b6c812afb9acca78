// The cut of the model into pipeline stages: which units each holds, who runs it, in which order.
#pragma once

#include <algorithm>
#include <vector>

#include "compile/pipeline/schedule/schedule.h"
#include "compile/pipeline/weight_versions.h"
#include "spec/run_spec.h"

namespace tessera {

struct StageLayout {
  PipelineSchedule schedule;
  std::vector<int> stage_of_unit;  // units: 0 the embedding, 1..layers the blocks, then the head
  std::vector<StageVersions> versions;  // by stage

  [[nodiscard]] int stages() const { return schedule.stages; }
  [[nodiscard]] int stage_of(int unit) const { return stage_of_unit[static_cast<size_t>(unit)]; }
  [[nodiscard]] int rank_of(int unit) const {
    return schedule.rank_of_stage[static_cast<size_t>(stage_of(unit))];
  }
  // All stages of a pipeline rank have the same: with several the schedule is synchronous.
  [[nodiscard]] const StageVersions& versions_of(int pipeline_rank) const {
    const std::vector<int>& ranks = schedule.rank_of_stage;
    const auto stage = std::find(ranks.begin(), ranks.end(), pipeline_rank) - ranks.begin();
    return versions[static_cast<size_t>(stage)];
  }
  // The embedding and the head lie on different stages, so that a tied weight has two gradients.
  [[nodiscard]] bool ends_differ() const { return schedule.stages > 1; }
};

// Blocks of each stage: as the user says, or so that the most expensive stage is as cheap as it can
// be. Throws ConfigError.
std::vector<int64_t> layers_per_stage(const RunSpec& spec, int stages);

// Blocks of each stage of a layout.
std::vector<int64_t> blocks_of_stages(const StageLayout& stages);

// Throws ConfigError for a cut or a schedule that cannot be.
StageLayout lay_out_stages(const RunSpec& spec, bool training);
// In a step of serving one micro-batch goes through the stages once.
StageLayout lay_out_serving_stages(const RunSpec& spec);

}  // namespace tessera
