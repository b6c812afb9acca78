// What would make a run fit that does not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "spec/run_spec.h"

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
// `said` has not gone through resolve().
inline OpenSettings open_settings(const RunSpec& said) {
  return {.global_batch = said.train.global_batch == 0,
          .grad_reduce = said.parallel.grad_reduce == GradReduce::kAuto};
}

struct FitAdvice {
  double step_s = 0;            // of the run as it is
  std::string assumed_cluster;  // that times are for, where the request names none
  // By step time. Each is another idea (other subjects) where there are enough of them; none has
  // all settings of one before it. The cheapest single change is among them.
  std::vector<FitChange> changes;
  // Where there is none: the one that comes nearest of those that were planned, and the fewest
  // devices that were found to do, with a change that fits there.
  std::optional<FitChange> nearest;
  int64_t devices = 0;  // 0: none found
  std::optional<FitChange> on_devices;
};

}  // namespace tessera
