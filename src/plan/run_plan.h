// What `tessera plan` says of a run on a cluster: memory and traffic of every rank, exactly, from
// the Programs that would run; the time of a step, by the cost model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compile/scale/scale_plan.h"
#include "cost/hardware/cluster.h"
#include "cost/step/cost_model.h"

namespace tessera {

// How the cost model sees a run. What it cannot tell apart is priced as the nearest thing it can,
// and said in `guesses`.
struct PricedRun {
  Workload workload;
  Strategy strategy;
  std::vector<Guess> guesses;
};
PricedRun priced_run(const RunSpec& spec, const Cluster& cluster, const Engine& engine);

// The cost model's word on a run, without its Programs.
struct RunPrice {
  PricedRun run;
  Estimate estimate;
};
// As plan_run, which it is a part of.
RunPrice price_run(const RunSpec& spec, const Cluster& cluster, const Engine& engine);

struct RunPlan {
  ScalePlan ranks;
  Cluster cluster;              // of as many devices as there are ranks
  int64_t cluster_devices = 0;  // of the cluster that was named
  std::string engine;           // whose time it is
  Estimate estimate;
  int64_t limit_bytes = 0;     // of a rank
  int64_t reserved_bytes = 0;  // of the device, and not part of the limit
  std::vector<Guess> guesses;
  // Empty, or what of the model no Program computes: then memory is the cost model's, one class for
  // each pipeline rank, and calls are not known.
  std::string not_compiled;

  [[nodiscard]] bool fits() const { return ranks.heaviest().total_bytes() <= limit_bytes; }
};

// `spec` must have gone through resolve(). Throws ConfigError for a mesh with more ranks than the
// cluster has devices, and for what the cost model cannot price.
RunPlan plan_run(const RunSpec& spec, const Cluster& cluster, const Engine& engine,
                 ScalePlanner& planner);

// What a rank may use: cluster.memory_gib where the run says it, else the device's without what is
// reserved.
int64_t memory_limit(const RunSpec& spec, const Cluster& cluster);

// The run's threads and device as the cluster has them.
void use_cluster_defaults(RunSpec& spec, const Cluster& cluster);

}  // namespace tessera
