// Changes to a run that does not fit that make it fit, cheapest first.
//
// All single changes and pairs of fit_space.h, and triples where these are too few, are priced by
// closed forms; the cheapest are then planned exactly until enough of them fit.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/run_plan.h"

namespace tessera {

struct FitChange {
  std::vector<std::string> settings;  // "parallel.zero=1", as --set takes them
  RunSpec spec;
  double step_s = 0;
  int64_t peak_bytes = 0;  // of the fullest rank, exactly
};

// What nobody said of a run, so that it follows from the rest and may change with it.
struct OpenSettings {
  bool global_batch = false;
  bool grad_reduce = true;
};

struct FitAdvice {
  // By step time. Each is another idea (other subjects) where there are enough of them; none has
  // all settings of one before it. The cheapest single change is among them.
  std::vector<FitChange> changes;
  // Where there is none: the one that comes nearest of those that were planned, and the fewest
  // devices that were found to do, with a change that fits there.
  std::optional<FitChange> nearest;
  int64_t devices = 0;  // 0: none found
  std::optional<FitChange> on_devices;
};

// `spec` must have gone through resolve(). The number of ranks and the batch stay.
FitAdvice advise_fit(const RunSpec& spec, const OpenSettings& open, const Cluster& cluster,
                     const Engine& engine, ScalePlanner& planner, size_t most = 3);

}  // namespace tessera
