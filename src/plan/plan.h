// One plan: what every rank of a run keeps and sends, to the byte; the time of a step where a
// cluster prices it; and what would make the run fit where it does not. The same type whether the
// numbers come from compiled Programs, from templates or from closed forms.
//
//   PlanRequest request{.spec = spec, .cluster = find_cluster("h100-16384")};
//   const Plan plan = make_plan(request);
//   plan_text(plan);  // report/plan_text.h; plan_json(plan): report/plan_json.h
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compile/scale/scale_plan.h"
#include "cost/engine/engine.h"
#include "cost/hardware/cluster.h"
#include "cost/step/estimate.h"
#include "plan/compile_run.h"
#include "plan/estimate_run.h"
#include "plan/failure_plan.h"
#include "plan/fit_advice.h"

namespace tessera {

struct PlanRequest {
  // Must have gone through resolve(), with device and threads filled in; without a cluster also
  // the memory of a rank (cluster.memory_gib). Nothing here asks the machine.
  RunSpec spec = {};
  std::string limit_of = {};            // whose memory that is, for people; empty: the run says it
  std::optional<Cluster> cluster = {};  // prices the step; none: memory and traffic alone
  std::optional<Engine> engine = {};    // whose time it is; none: our own
  BlockProducts products = BlockProducts::kAsTrained;  // where a cluster prices the step
  OpenSettings open = {};                              // what follows from the rest, for advice
  std::vector<Guess> guesses = {};                     // taken before it came to this; listed first
  int64_t tokens = 0;                                  // of the whole training; 0: not asked
  FailureFlags failures = {};                          // with tokens: what failures add to it
  bool advise = false;        // where the run does not fit: what would make it fit
  bool digests = false;       // of Programs also where a cluster prices the step
  bool weigh_guesses = true;  // of the engine: the step is priced again for each of them
};

// Where memory and traffic come from.
enum class PlanSource : uint8_t {
  kPrograms,     // every rank was compiled
  kTemplates,    // of stages that were compiled once: the same bytes for any number of ranks
  kClosedForms,  // no Program computes the model: memory is the cost model's, calls are not known
};
std::string_view name_of(PlanSource source);

// Ranks that do the same: of one place in the pipeline, with instructions over equal buffers.
struct PlannedClass {
  int pipeline_rank = 0;
  int first_rank = 0;  // the lowest
  int64_t ranks = 0;
  ArenaBytes memory = {};
  std::map<int, int> in_flight = {};  // micro-batches at one time, by stage
  int weight_versions = 1;            // more: an asynchronous schedule
  // Sent in a step by the first rank; others of the class may differ by a cache line.
  std::vector<Traffic> traffic = {};
  [[nodiscard]] int64_t total_bytes() const;
};

struct PlannedRank {
  int rank = 0;
  ArenaBytes memory = {};
  std::vector<Traffic> traffic = {};  // of a step
  int64_t instructions = 0;
  std::string digest = "";  // of its Program; empty: it was not compiled
};

// The time of a step.
struct PlannedStep {
  Cluster cluster;              // of as many devices as there are ranks
  int64_t cluster_devices = 0;  // of the cluster that was named
  std::string engine;           // whose time it is
  Estimate estimate;
};

struct Plan {
  PlanSource source = PlanSource::kPrograms;
  RunSpec spec = {};
  Mesh mesh;
  int64_t num_parameters = 0;
  PipelineSchedule schedule;
  std::vector<int64_t> stage_blocks;  // layers by stage
  std::vector<PlannedClass> classes;  // by pipeline rank; together every rank once
  std::vector<PlannedRank> ranks;     // each one, where it was compiled or there are few
  int64_t limit_bytes = 0;            // of a rank
  std::string limit_of = {};          // whose memory that is, where the machine was asked
  int64_t reserved_bytes = 0;         // of the device, and not part of the limit
  std::optional<PlannedStep> step;    // where a cluster prices it
  BlockProducts products = BlockProducts::kAsTrained;
  int64_t tokens = 0;                   // of the whole training; 0: not asked
  std::optional<FailurePlan> failures;  // with tokens, where a cluster prices the step
  std::vector<Guess> guesses;
  std::optional<FitAdvice> advice;  // where it does not fit and advice was asked for

  [[nodiscard]] const PlannedClass& heaviest() const;
  [[nodiscard]] int64_t peak_bytes() const { return heaviest().total_bytes(); }
  [[nodiscard]] bool fits() const { return peak_bytes() <= limit_bytes; }
};

// Ranks up to so many are listed one by one even where they were not compiled.
inline constexpr int64_t kMostListedRanks = 64;

// Pure: the same request, the same plan. With a cluster, or for a run that is too large to compile
// every rank of, from templates; else from Programs. Throws ConfigError for a mesh with more ranks
// than the cluster has devices, and for what no Program and no closed form can be.
Plan make_plan(const PlanRequest& request);
// The same with templates that earlier plans have left.
Plan make_plan(const PlanRequest& request, ScalePlanner& planner);

// The cluster that a run is for where nobody names one: "h100-8", or "cpu-8" by its device.
std::string assumed_cluster(const RunSpec& spec);

// The plan of Programs that are there already; its spec says the memory of a rank.
Plan plan_of(const CompiledRun& run);

}  // namespace tessera
