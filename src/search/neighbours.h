// Why a plan is better than its neighbours: the plans that differ from it in one choice.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "search/simulated_strategy.h"
#include "search/space.h"

namespace tessera {

struct Neighbour {
  std::string change;  // "tp 16"
  bool fits = true;
  double more_s = 0;          // than the plan, where it fits
  std::string term;           // the part of the step that grows most: "bubble"
  double term_s = 0;          // by how much
  int64_t missing_bytes = 0;  // where it does not fit
};

struct Change {
  std::string text;
  Strategy strategy;
  bool of_recompute = false;
};
// Strategies that differ from this one in one choice that is not fixed, and that the workload can
// have, always in the same order.
std::vector<Change> changes_of(const Workload& workload, const FixedAxes& fixed,
                               const Strategy& strategy);

// The change with the stages that suit it best: layers, and what of them is computed again, unless
// that is what it changes. Nothing where it does not fit in `limit` bytes.
std::optional<SimulatedStrategy> simulate_change(StrategySimulator& simulator,
                                                 const FixedAxes& fixed, const Change& change,
                                                 int64_t limit);

std::vector<Neighbour> neighbours_of(StrategySimulator& simulator, const FixedAxes& fixed,
                                     const SimulatedStrategy& plan, int64_t limit);

// One sentence about the nearest ones: what they would add to the step, or why they do not fit.
// Times of one comparison have one unit.
std::string why_better(const std::vector<Neighbour>& neighbours);

}  // namespace tessera
