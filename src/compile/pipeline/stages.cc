#include "compile/pipeline/stages.h"

#include <numeric>

#include "base/error.h"
#include "compile/pipeline/schedule/run_schedule.h"
#include "compile/pipeline/stage_balance.h"
#include "spec/run_file/asynchronous.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

PipelineSchedule one_stage(bool training, int micro_batches) {
  PipelineSchedule schedule;
  schedule.name = "sequential";
  schedule.micro_batches = micro_batches;
  schedule.rank_of_stage = {0};
  schedule.actions.resize(1);
  for (int m = 0; m < micro_batches; ++m) {
    schedule.actions[0].push_back({StagePass::kForward, 0, m});
    if (training) schedule.actions[0].push_back({StagePass::kBackward, 0, m});
  }
  return schedule;
}

// One layer for each stage; the head, and then the embedding, fill a stage of their own.
std::vector<int64_t> ends_without_layers(int64_t layers, int stages) {
  std::vector<int64_t> counts(static_cast<size_t>(stages), 1);
  counts.back() = 0;
  if (stages > layers + 1) counts.front() = 0;
  return counts;
}

}  // namespace

std::vector<int64_t> layers_per_stage(const RunSpec& spec, int stages) {
  const int64_t layers = spec.model.layers;
  const std::vector<int64_t>& given = spec.parallel.stage_layers;
  if (!given.empty()) {
    require_config(static_cast<int>(given.size()) == stages,
                   "parallel.stage_layers has {} numbers but the pipeline has {} stages; give one "
                   "number of layers for each",
                   given.size(), stages);
    const int64_t sum = std::accumulate(given.begin(), given.end(), int64_t{0});
    require_config(sum == layers,
                   "parallel.stage_layers adds up to {} but the model has {} layers; every layer "
                   "belongs to one stage",
                   sum, layers);
    return given;
  }
  // With several stages for each rank the ends may be stages of their own, as Llama 3's are.
  const int without_layers = spec.parallel.virtual_stages > 1 ? 2 : 0;
  require_config(layers + without_layers >= stages,
                 "{} stages for {} layers: every stage needs a layer; use fewer stages (pp * "
                 "virtual_stages <= {}), or give parallel.stage_layers",
                 stages, layers, layers + without_layers);
  if (layers < stages) return ends_without_layers(layers, stages);
  const std::vector<int> first = balance_units(block_costs(spec.model, spec.train.seq_len), stages);
  std::vector<int64_t> counts;
  for (size_t s = 0; s < first.size(); ++s) {
    counts.push_back((s + 1 < first.size() ? first[s + 1] : layers) - first[s]);
  }
  return counts;
}

std::vector<int64_t> blocks_of_stages(const StageLayout& stages) {
  std::vector<int64_t> blocks(static_cast<size_t>(stages.stages()), 0);
  for (size_t unit = 1; unit + 1 < stages.stage_of_unit.size(); ++unit) {
    ++blocks[static_cast<size_t>(stages.stage_of_unit[unit])];
  }
  return blocks;
}

namespace {

// The units of each stage.
void cut_units(const RunSpec& spec, StageLayout& plan) {
  const std::vector<int64_t> counts = layers_per_stage(spec, plan.stages());
  plan.stage_of_unit.push_back(0);
  for (int stage = 0; stage < plan.stages(); ++stage) {
    for (int64_t i = 0; i < counts[static_cast<size_t>(stage)]; ++i) {
      plan.stage_of_unit.push_back(stage);
    }
  }
  plan.stage_of_unit.push_back(plan.stages() - 1);
}

}  // namespace

StageLayout lay_out_stages(const RunSpec& spec, bool training) {
  const ParallelSpec& parallel = spec.parallel;
  const auto micro_batches = static_cast<int>(training ? accumulation(spec) : 1);
  StageLayout plan;
  if (parallel.pp == 1) {
    plan.schedule = one_stage(training, micro_batches);
  } else {
    require_config(training, "pp = {}: only training runs in stages; use pp = 1", parallel.pp);
    plan.schedule = run_schedule(parallel, micro_batches);
  }
  plan.schedule.asynchronous = training && is_asynchronous(parallel);
  plan.versions =
      plan_versions(plan.schedule, training ? static_cast<int>(micro_batches_per_update(spec)) : 1,
                    parallel.schedule == PipelineKind::kPipedream2bw ? VersionRule::kOneBehind
                                                                     : VersionRule::kNewest);
  cut_units(spec, plan);
  return plan;
}

StageLayout lay_out_serving_stages(const RunSpec& spec) {
  const auto stages = static_cast<int>(spec.parallel.pp);
  StageLayout plan;
  plan.schedule = one_stage(/*training=*/false, /*micro_batches=*/1);
  plan.schedule.ranks = plan.schedule.stages = stages;
  for (int stage = 1; stage < stages; ++stage) {
    plan.schedule.rank_of_stage.push_back(stage);
    plan.schedule.actions.push_back({{StagePass::kForward, stage, 0}});
  }
  plan.versions = plan_versions(plan.schedule, 1, VersionRule::kNewest);
  cut_units(spec, plan);
  return plan;
}

}  // namespace tessera
