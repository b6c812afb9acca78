#include "search/sensitivity.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "search/neighbours.h"
#include "search/search.h"

namespace tessera {
namespace {

constexpr int kMostMoves = 8;

struct Machine {
  std::string change;
  Workload workload;
};

std::vector<Machine> changed_machines(const Workload& workload) {
  std::vector<Machine> machines;
  const auto add = [&](std::string change, auto&& apply) {
    machines.push_back({std::move(change), workload});
    apply(machines.back().workload.cluster);
  };
  for (size_t i = 0; i < workload.cluster.levels.size(); ++i) {
    const LinkLevel& level = workload.cluster.levels[i];
    const bool is_used = i == 0 || workload.cluster.node_devices() < workload.cluster.devices;
    if (!is_used) continue;
    // Nodes reach each other through adapters: one more beside each is twice the bandwidth.
    add(fmt::format("{}twice the bandwidth of {}", i == 0 ? "" : "one more adapter beside each, ",
                    level.name),
        [&](Cluster& cluster) { cluster.levels[i].bandwidth.value *= 2; });
  }
  add("twice the memory", [](Cluster& cluster) { cluster.device.memory_bytes.value *= 2; });
  add("half more memory bandwidth",
      [](Cluster& cluster) { cluster.device.memory_bandwidth.value *= 1.5; });
  add("half more arithmetic", [](Cluster& cluster) {
    for (Constant& peak : cluster.device.peak_flops) peak.value *= 1.5;
  });
  return machines;
}

struct Descent {
  double step_s = 0;
  std::vector<std::string> moves;
};

Descent descend(const Workload& workload, const FixedAxes& fixed, const Strategy& from) {
  StrategySimulator simulator(workload);
  const int64_t limit = usable_bytes(workload.cluster);
  Strategy at = from;
  Descent result{simulator.simulate(at).step_s(), {}};
  for (int move = 0; move < kMostMoves; ++move) {
    std::optional<SimulatedStrategy> best;
    std::string text;
    for (const Change& change : changes_of(workload, fixed, at)) {
      std::optional<SimulatedStrategy> plan = simulate_change(simulator, fixed, change, limit);
      if (!plan.has_value() || plan->step_s() >= result.step_s) continue;
      result.step_s = plan->step_s();
      text = change.text;
      best = std::move(plan);
    }
    if (!best.has_value()) break;
    at = best->strategy;
    result.moves.push_back(text);
  }
  return result;
}

}  // namespace

std::vector<Sensitivity> sensitivities_of(const Workload& workload, const FixedAxes& fixed,
                                          const SimulatedStrategy& best) {
  const Descent as_it_is = descend(workload, fixed, best.strategy);
  std::vector<Sensitivity> result;
  for (const Machine& machine : changed_machines(workload)) {
    const Descent there = descend(machine.workload, fixed, best.strategy);
    result.push_back({machine.change, 100 * (there.step_s / as_it_is.step_s - 1),
                      fmt::format("{}", fmt::join(there.moves, ", "))});
  }
  return result;
}

}  // namespace tessera
