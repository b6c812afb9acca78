// From a run file to what the cost model prices. run_of_strategy.h is the way back.
#pragma once

#include <vector>

#include "cost/engine/engine.h"
#include "cost/step/estimate.h"
#include "cost/step/strategy.h"
#include "spec/run_spec.h"

namespace tessera {

// How the cost model sees a run. What it cannot tell apart is priced as the nearest thing it can,
// and said in `guesses`.
struct RunStrategy {
  Workload workload;
  Strategy strategy;
  std::vector<Guess> guesses;
};
// `spec` must have gone through resolve(); `cluster` has as many devices as the run has ranks.
RunStrategy strategy_of_run(const RunSpec& spec, const Cluster& cluster, const Engine& engine);

}  // namespace tessera
