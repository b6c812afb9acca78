// What another machine would change: the best plan's step with more memory, faster links, faster
// devices, each alone.
#pragma once

#include <string>
#include <vector>

#include "search/simulated_strategy.h"
#include "search/space.h"

namespace tessera {

struct Sensitivity {
  std::string change;     // "twice the nvlink bandwidth"
  double change_pct = 0;  // of the step time
  std::string moves;  // how the plan changes, step by step: "tp 4, no recomputation"; empty: not
};

// The plan moves to its best neighbour as long as that is faster, on the machine as it is and on
// each changed one; the two ends are compared. What is fixed stays.
std::vector<Sensitivity> sensitivities_of(const Workload& workload, const FixedAxes& fixed,
                                          const SimulatedStrategy& best);

}  // namespace tessera
