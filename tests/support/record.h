// Short runs on many meshes, and how two of them compare.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "train/verify/difference.h"
#include "train/verify/verify.h"

namespace tessera::testing {

inline ShortRun short_run(const RunSpec& spec, const SampleSource& samples) {
  ShortRun run;
  run.spec = spec;
  run.samples = samples;
  return run;
}

inline std::vector<StepRecord> record(const RunSpec& spec, const SampleSource& samples) {
  return record_run(short_run(spec, samples));
}

// Every gradient, every updated weight and the loss of every step.
inline void expect_equal(const std::vector<StepRecord>& mine, const std::vector<StepRecord>& oracle,
                         double tolerance) {
  ASSERT_EQ(mine.size(), oracle.size());
  for (size_t s = 0; s < mine.size(); ++s) {
    for (const Difference& d : differences(mine[s].gradients, oracle[s].gradients)) {
      EXPECT_LE(d.relative, tolerance) << "gradient of " << d.name << ", step " << s + 1;
    }
    for (const Difference& d : differences(mine[s].weights, oracle[s].weights)) {
      EXPECT_LE(d.relative, tolerance) << "weight " << d.name << ", step " << s + 1;
    }
    EXPECT_LE(std::abs(mine[s].loss - oracle[s].loss), tolerance * std::abs(oracle[s].loss));
  }
}

}  // namespace tessera::testing
