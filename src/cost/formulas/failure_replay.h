// A run that fails now and then, played from its first second to its last: training, saves,
// failures, waiting for a spare, restarts. The same for the same seed everywhere; what the closed
// forms of failures.h are tested against.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "cost/formulas/failures.h"

namespace tessera {

struct FailingRun {
  FailureModel model;
  double interval = 0;      // training between two saves, in seconds
  double work = 0;          // training to be done, in seconds without any failure
  double until = HUGE_VAL;  // the replay ends here, done or not
  // Whatever fails is replaced by a spare at once; without one the run waits until the first that
  // broke is repaired. Fewer than none: there is always one.
  int64_t spares = -1;
  double repair = 0;  // seconds until what broke is a spare again
};

enum class RunPhase : uint8_t {
  kTrain,    // work that was kept
  kLost,     // work that a failure undid
  kSave,     // standing still in a save
  kWait,     // for a spare
  kRestart,  // and what it repeats when it fails itself
};
inline constexpr int kNumRunPhases = 5;

struct RunSpan {
  RunPhase phase = RunPhase::kTrain;
  double begin = 0, end = 0;
};

struct FailureReplay {
  double seconds[kNumRunPhases] = {};  // by phase
  double total = 0;
  int64_t saves = 0, skipped_saves = 0, failures = 0;
  bool finished = true;        // false: `until` came first, or it was given up
  std::vector<RunSpan> spans;  // in order, without gaps; empty unless they were asked for
  [[nodiscard]] double of(RunPhase phase) const { return seconds[static_cast<int>(phase)]; }
  [[nodiscard]] double goodput() const { return total > 0 ? of(RunPhase::kTrain) / total : 0; }
};

inline constexpr int64_t kMostFailures = 1'000'000;

// `keep_spans`: also what happened when; at most a few per save and failure.
FailureReplay replay_failures(const FailingRun& run, uint64_t seed, bool keep_spans = false);

}  // namespace tessera
