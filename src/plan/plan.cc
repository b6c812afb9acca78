#include "plan/plan.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "compile/program/memory_parts.h"
#include "cost/engine/engine_catalogue.h"
#include "cost/hardware/catalogue.h"
#include "plan/engine_guesses.h"
#include "plan/estimate_run.h"
#include "plan/fit_changes.h"
#include "plan/memory_limit.h"
#include "spec/run_file/trainable.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

PlannedRank planned_rank(const Program& program) {
  return {program.rank, memory_parts(program), traffic_of(program),
          static_cast<int64_t>(program.instructions.size()), digest_of(program)};
}

PlannedClass planned_class(const RankClass& ranks, const Program& first) {
  return {ranks.pipeline_rank,      ranks.first_rank,      ranks.ranks,      memory_parts(first),
          first.live_micro_batches, first.weight_versions, traffic_of(first)};
}

Plan plan_of(const ScalePlan& scale) {
  Plan plan;
  plan.source = PlanSource::kTemplates;
  plan.spec = scale.spec;
  plan.mesh = scale.mesh;
  plan.num_parameters = scale.num_parameters;
  plan.schedule = scale.schedule;
  plan.stage_blocks = scale.stage_blocks;
  for (const ClassTotals& one : scale.classes) {
    plan.classes.push_back({one.ranks.pipeline_rank, one.ranks.first_rank, one.ranks.ranks,
                            one.memory, one.in_flight, one.weight_versions, scale.traffic(one)});
  }
  if (plan.mesh.world() > kMostListedRanks) return plan;
  for (int rank = 0; rank < plan.mesh.world(); ++rank) {
    plan.ranks.push_back({rank, scale.class_of_rank(rank).memory, scale.traffic(rank)});
  }
  return plan;
}

ArenaKind arena_of(MemoryPart part) {
  switch (part) {
    case MemoryPart::kParameters:
      return ArenaKind::kParameters;
    case MemoryPart::kGradients:
      return ArenaKind::kGradients;
    case MemoryPart::kOptimizer:
      return ArenaKind::kOptimizer;
    case MemoryPart::kActivations:
    case MemoryPart::kWorking:
      return ArenaKind::kActivations;
    case MemoryPart::kGathered:
      return ArenaKind::kCommunication;
    case MemoryPart::kBuffers:
      break;
  }
  return ArenaKind::kWorkspace;
}

// What can be said of a model that no Program computes: one class for each pipeline rank.
Plan plan_of(const RunSpec& spec, const RunEstimate& priced) {
  Plan plan;
  plan.source = PlanSource::kClosedForms;
  plan.spec = spec;
  plan.mesh = mesh_of(spec.parallel);
  plan.num_parameters = priced.run.workload.model.parameters();
  const Strategy& strategy = priced.run.strategy;
  plan.schedule.name = name_of(strategy.schedule);
  plan.schedule.stages = static_cast<int>(strategy.pp * strategy.virtual_stages);
  const int64_t per_stage = plan.mesh.world() / spec.parallel.pp;
  for (const StageMemory& stage : priced.estimate.stages) {
    PlannedClass one;
    one.pipeline_rank = stage.stage;
    one.first_rank = static_cast<int>(stage.stage * per_stage);
    one.ranks = per_stage;
    for (int part = 0; part < kNumMemoryParts; ++part) {
      one.memory[static_cast<size_t>(arena_of(static_cast<MemoryPart>(part)))] +=
          stage.bytes[static_cast<size_t>(part)];
    }
    plan.classes.push_back(std::move(one));
  }
  return plan;
}

void append(std::vector<Guess>& guesses, const std::vector<Guess>& more) {
  guesses.insert(guesses.end(), more.begin(), more.end());
}

bool lists_digests(const PlanRequest& request) {
  return request.digests && request.spec.parallel.world() <= kMostListedRanks &&
         can_compile_quickly(request.spec);
}

// Templates have no lanes.
bool needs_programs(const PlanRequest& request) {
  return lists_digests(request) ||
         (request.spec.train.lanes > 0 && can_compile_every_rank(request.spec));
}

Engine engine_of(const PlanRequest& request) {
  return request.engine ? *request.engine : find_engine(std::string(kOwnEngine));
}

Plan priced_plan(const PlanRequest& request, ScalePlanner& planner) {
  const RunSpec& spec = request.spec;
  const Cluster& cluster = *request.cluster;
  const Engine engine = engine_of(request);
  RunEstimate priced = estimate_run(spec, cluster, engine, request.products);
  const std::string not_compiled = untrainable_choice(spec.model);
  const bool compiled = not_compiled.empty();
  Plan plan = !compiled ? plan_of(spec, priced)
                        : (needs_programs(request) ? plan_of(compile_run(spec))
                                                   : plan_of(planner.plan(spec)));
  plan.products = request.products;
  plan.limit_bytes = memory_limit(spec, cluster);
  plan.limit_of = request.limit_of;
  const bool of_device = plan.limit_of.empty();
  plan.reserved_bytes = of_device ? static_cast<int64_t>(cluster.device.reserved_bytes.value) : 0;
  plan.guesses = request.guesses;
  if (!compiled) {
    plan.guesses.push_back(
        {"memory", fmt::format("closed forms: there is no program for {}", not_compiled)});
  }
  append(plan.guesses, priced.run.guesses);
  append(plan.guesses, priced.estimate.guesses);
  plan.step = PlannedStep{priced.run.workload.cluster, cluster.devices, engine.name,
                          std::move(priced.estimate)};
  plan.step->cluster.name = cluster.name;
  append(plan.guesses, default_constants(plan.step->cluster));
  if (request.tokens > 0) {
    plan.failures = plan_failures(spec, plan.num_parameters, plan.step->cluster,
                                  plan.step->estimate.time.step_s, request.failures, plan.guesses);
  }
  if (request.weigh_guesses) {
    add_engine_guesses(engine, priced.run.workload, priced.run.strategy, plan.guesses);
  }
  return plan;
}

Plan unpriced_plan(const PlanRequest& request, ScalePlanner& planner) {
  Plan plan = can_compile_every_rank(request.spec) ? plan_of(compile_run(request.spec))
                                                   : plan_of(planner.plan(request.spec));
  plan.limit_bytes = memory_limit(request.spec);
  plan.limit_of = request.limit_of;
  plan.guesses = request.guesses;
  return plan;
}

// Hundreds of changes are priced, each by cutting its layers into stages and playing its pipeline.
constexpr int64_t kMostAdvisedCells = int64_t{1} << 13;
constexpr int64_t kMostAdvisedLayers = 256;

bool is_quickly_priced(const RunSpec& spec) {
  const int64_t stages = spec.parallel.pp * std::max<int64_t>(1, spec.parallel.virtual_stages);
  return accumulation(spec) <= kMostAdvisedCells / stages &&
         spec.model.layers <= kMostAdvisedLayers;
}

// Changes are compared by step time also where nobody named a cluster. What the cost model cannot
// price gets no advice, nor what it takes long to price.
FitAdvice advice_for(const PlanRequest& request, ScalePlanner& planner) {
  if (!is_quickly_priced(request.spec) || request.spec.train.lanes > 0) return {};
  const Engine engine = engine_of(request);
  FitAdvice advice;
  try {
    if (request.cluster) {
      return advise_fit(request.spec, request.open, *request.cluster, engine, planner, 3,
                        request.products);
    }
    const std::string name = assumed_cluster(request.spec);
    advice = advise_fit(request.spec, request.open, find_cluster(name), engine, planner);
    advice.assumed_cluster = name;
  } catch (const ConfigError&) {
    return {};
  }
  return advice;
}

}  // namespace

std::string_view name_of(PlanSource source) {
  switch (source) {
    case PlanSource::kPrograms:
      return "programs";
    case PlanSource::kTemplates:
      return "templates";
    case PlanSource::kClosedForms:
      break;
  }
  return "closed_forms";
}

int64_t PlannedClass::total_bytes() const {
  int64_t total = 0;
  for (const int64_t bytes : memory) total += bytes;
  return total;
}

const PlannedClass& Plan::heaviest() const {
  return *std::max_element(classes.begin(), classes.end(),
                           [](const PlannedClass& a, const PlannedClass& b) {
                             return a.total_bytes() < b.total_bytes();
                           });
}

std::string assumed_cluster(const RunSpec& spec) {
  return fmt::format("{}-{}", spec.train.device == TrainDevice::kCuda ? "h100" : "cpu",
                     spec.parallel.world());
}

Plan plan_of(const CompiledRun& run) {
  Plan plan;
  plan.spec = run.step.spec;
  plan.mesh = run.step.mesh;
  plan.num_parameters = run.step.layout.num_parameters;
  plan.schedule = run.step.stages.schedule;
  plan.stage_blocks = blocks_of_stages(run.step.stages);
  for (const Program& program : run.programs) plan.ranks.push_back(planned_rank(program));
  for (const RankClass& ranks : rank_classes(plan.mesh, run.step.layout, plan.spec.train.lanes,
                                             plan.spec.train.redundancy)) {
    plan.classes.push_back(
        planned_class(ranks, run.programs[static_cast<size_t>(ranks.first_rank)]));
  }
  plan.limit_bytes = memory_limit(plan.spec);
  return plan;
}

Plan make_plan(const PlanRequest& request, ScalePlanner& planner) {
  Plan plan = request.cluster ? priced_plan(request, planner) : unpriced_plan(request, planner);
  plan.tokens = request.tokens;
  if (request.advise && !plan.fits()) plan.advice = advice_for(request, planner);
  return plan;
}

Plan make_plan(const PlanRequest& request) {
  ScalePlanner planner(kMostTemplateWork);
  return make_plan(request, planner);
}

}  // namespace tessera
