// Plans with the time that a simulation of their pipeline schedule gives. Closed forms of bubbles
// are too good where stages differ, so the kept plans of a search are simulated and ranked again.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "cost/step/cost_model.h"
#include "search/space.h"
#include "sim/schedule/step_simulator.h"

namespace tessera {

struct SimulatedStrategy {
  Strategy strategy;
  Estimate estimate;  // its time is the simulated one; waiting for messages is part of the bubble
  double closed_form_s = 0;
  [[nodiscard]] double step_s() const { return estimate.time.step_s; }
  [[nodiscard]] int64_t peak_bytes() const {
    return estimate.stages[static_cast<size_t>(estimate.fullest_stage)].total();
  }
};

// Serves one workload; remembers the schedules it has seen. One per thread.
class StrategySimulator {
 public:
  explicit StrategySimulator(Workload workload) : steps_(std::move(workload)) {}
  SimulatedStrategy simulate(const Strategy& strategy);
  CostModel& model() { return steps_.model(); }

 private:
  StepSimulator steps_;
};

// The same strategy with stages chosen in the other ways: closed forms and simulations may differ
// about which is best.
std::vector<Strategy> other_stages(CostModel& model, const Strategy& strategy, int64_t limit);

// Simulates each, also with other stages where those are allowed and fit in `limit` bytes, and
// keeps the fastest; in the order given.
std::vector<SimulatedStrategy> simulate_strategies(const Workload& workload, const FixedAxes& fixed,
                                                   std::span<const Strategy> strategies,
                                                   int64_t limit, int threads);

}  // namespace tessera
