// Changes to a run that does not fit that make it fit, cheapest first.
#pragma once

#include <string>
#include <vector>

#include "cost/run_plan.h"

namespace tessera {

struct FitChange {
  std::vector<std::string> settings;  // "parallel.zero=1", as --set takes them
  RunSpec spec;
  double step_s = 0;
  int64_t peak_bytes = 0;  // of the fullest rank
};

// At most `most`, by step time; single changes before pairs of them. The number of ranks stays.
std::vector<FitChange> changes_that_fit(const RunSpec& spec, const Cluster& cluster,
                                        ScalePlanner& planner, size_t most = 3);

}  // namespace tessera
