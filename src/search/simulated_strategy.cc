#include "search/simulated_strategy.h"

#include <deque>

#include "search/in_parallel.h"
#include "search/stage_choice.h"

namespace tessera {

SimulatedStrategy StrategySimulator::simulate(const Strategy& strategy) {
  SimulatedStep step = steps_.simulate(strategy);
  return {strategy, std::move(step.estimate), step.closed_form_s};
}

std::vector<Strategy> other_stages(CostModel& model, const Strategy& strategy, int64_t limit) {
  std::vector<Strategy> others;
  if (!can_choose_stages(model.workload(), strategy)) return others;
  Strategy plain = strategy;
  plain.stage_layers.clear();
  plain.stage_recompute.clear();
  for (const auto& choice :
       {fewest_again(model, plain, limit), shortest_stages(model, plain, limit)}) {
    if (!choice.has_value()) continue;
    Strategy other = with_stages(model.workload(), plain, *choice);
    const bool same = other.stage_layers == strategy.stage_layers &&
                      other.stage_recompute == strategy.stage_recompute &&
                      other.recompute == strategy.recompute;
    if (!same) others.push_back(std::move(other));
  }
  return others;
}

std::vector<SimulatedStrategy> simulate_strategies(const Workload& workload, const FixedAxes& fixed,
                                                   std::span<const Strategy> strategies,
                                                   int64_t limit, int threads) {
  std::deque<StrategySimulator> simulators;
  for (int t = 0; t < threads; ++t) simulators.emplace_back(workload);
  std::vector<SimulatedStrategy> plans(strategies.size());
  in_parallel(strategies.size(), threads, [&](size_t i, size_t thread) {
    StrategySimulator& simulator = simulators[thread];
    plans[i] = simulator.simulate(strategies[i]);
    for (const Strategy& other : other_stages(simulator.model(), strategies[i], limit)) {
      if (!is_allowed(fixed, workload, other)) continue;
      if (simulator.model().peak_bytes(other) > limit) continue;
      SimulatedStrategy plan = simulator.simulate(other);
      if (plan.step_s() < plans[i].step_s()) plans[i] = std::move(plan);
    }
  });
  return plans;
}

}  // namespace tessera
