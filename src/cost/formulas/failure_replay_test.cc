// The closed forms and runs that are played, on settings that nobody chose: they agree as far as
// the number of failures lets them.
#include "cost/formulas/failure_replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "base/testing/share.h"

namespace tessera {
namespace {

constexpr int kSigmas = 6;

// Log-uniform between `least` and `most`.
double draw(uint64_t seed, uint64_t number, double least, double most) {
  return least * std::pow(most / least, uniform_at(seed, 0xFA, number));
}

FailingRun random_run(uint64_t seed) {
  FailingRun run;
  run.model.mtbf = draw(seed, 0, 300, 1e6);
  run.model.stall = draw(seed, 1, 1e-5, 0.1) * run.model.mtbf;
  run.model.restart = draw(seed, 2, 1e-3, 0.4) * run.model.mtbf;
  run.interval = draw(seed, 3, 0.2, 5) * best_interval(run.model);
  run.work = 400 * run.model.mtbf;
  return run;
}

struct Compared {
  double difference = 0;  // of the total time
  double bound = 0;
};

// Failures come at random, and what each of them costs is between nothing and the work since the
// last save, that save and a restart: their sum strays from its mean by the square root of their
// number at most, times that. A restart that fails itself is one more failure, and a run that takes
// longer fails more often: all of it divided by the goodput.
Compared compared(const FailingRun& run, const FailureModel& formula, uint64_t seed) {
  const FailureReplay replay = replay_failures(run, seed);
  EXPECT_TRUE(replay.finished);
  const double expected = run.work / goodput(formula, run.interval);
  const double most = run.interval + run.model.stall + run.model.restart;
  const double strays = kSigmas * most * std::sqrt(static_cast<double>(replay.failures) + 1) /
                        goodput(run.model, run.interval);
  // The last stretch has no save after it.
  return {std::abs(replay.total - expected), strays + run.interval + run.model.stall};
}

TEST(FailureReplayTest, RandomRunsTakeWhatTheClosedFormSays) {
  const uint64_t first = static_cast<uint64_t>(testing::rotation()) * 1000;
  for (uint64_t seed = first; seed < first + 60; ++seed) {
    const FailingRun run = random_run(seed);
    const Compared result = compared(run, run.model, seed);
    EXPECT_LT(result.difference, result.bound) << seed;
  }
}

// A formula that forgets something is noticed.
TEST(FailureReplayTest, AFormulaThatForgetsRestartsOrSavesIsFound) {
  int without_restart = 0, without_stall = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    FailingRun run = random_run(seed);
    run.work *= 10;
    FailureModel no_restart = run.model, no_stall = run.model;
    no_restart.restart = 0;
    no_stall.stall = 0;
    const Compared forgot_restart = compared(run, no_restart, seed);
    const Compared forgot_stall = compared(run, no_stall, seed);
    without_restart += forgot_restart.difference > forgot_restart.bound;
    without_stall += forgot_stall.difference > forgot_stall.bound;
  }
  EXPECT_GT(without_restart, 10);
  EXPECT_GT(without_stall, 10);
}

// Beside an asynchronous save the closed form has the mean of what a failure undoes.
TEST(FailureReplayTest, RandomRunsWithAsynchronousSavesToo) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    FailingRun run = random_run(seed);
    run.model.restart = draw(seed, 2, 1e-3, 0.05) * run.model.mtbf;
    run.model.stall = draw(seed, 1, 1e-5, 1e-3) * run.model.mtbf;
    run.model.write = draw(seed, 4, 0.1, 0.9) * best_interval(run.model);
    run.interval = draw(seed, 3, 1, 3) * best_interval(run.model);
    const Compared result = compared(run, run.model, seed);
    // The closed form leaves out terms of the second order in interval / mtbf.
    const double ratio = (run.interval + run.model.write) / run.model.mtbf;
    EXPECT_LT(result.difference, result.bound + ratio * ratio * run.work) << seed;
  }
}

TEST(FailureReplayTest, AMonthEndsOnItsLastSecond) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    FailingRun run = random_run(seed);
    run.work = HUGE_VAL;
    run.until = draw(seed, 5, 0.01, 30) * run.model.mtbf;
    run.spares = static_cast<int64_t>(seed % 3) - 1;
    run.repair = run.model.mtbf;
    const FailureReplay replay = replay_failures(run, seed, true);
    EXPECT_FALSE(replay.finished);
    EXPECT_NEAR(replay.total, run.until, 1e-9 * run.until);
    double at = 0, sum = 0;
    for (const RunSpan& span : replay.spans) {
      EXPECT_NEAR(span.begin, at, 1e-9 * run.until);
      at = span.end;
    }
    for (const double seconds : replay.seconds) sum += seconds;
    EXPECT_NEAR(at, run.until, 1e-9 * run.until) << seed;
    EXPECT_NEAR(sum, run.until, 1e-6 * run.until) << seed;
  }
}

// A longer month begins as the shorter one.
TEST(FailureReplayTest, ALongerMonthBeginsTheSame) {
  FailingRun run = random_run(3);
  run.work = HUGE_VAL;
  run.until = 10 * run.model.mtbf;
  const FailureReplay shorter = replay_failures(run, 5, true);
  run.until *= 3;
  const FailureReplay longer = replay_failures(run, 5, true);
  EXPECT_GE(longer.failures, shorter.failures);
  size_t same = 0;
  while (same + 1 < shorter.spans.size() && shorter.spans[same].begin == longer.spans[same].begin) {
    ++same;
  }
  EXPECT_GE(same + 3, shorter.spans.size());
}

// Spares that never come back are used up; then the run stands still.
TEST(FailureReplayTest, WithoutSparesItWaitsForRepairs) {
  FailingRun run{.model = {.mtbf = 1000, .stall = 1, .restart = 10},
                 .interval = 50,
                 .work = HUGE_VAL,
                 .until = 1e6,
                 .spares = 2,
                 .repair = 1e9};
  const FailureReplay gone = replay_failures(run, 1);
  EXPECT_EQ(gone.failures, 3) << "two spares, and then nobody";
  EXPECT_GT(gone.of(RunPhase::kWait), 0.9e6);
  run.repair = 2000;
  const FailureReplay repaired = replay_failures(run, 1);
  EXPECT_GT(repaired.failures, 100);
  EXPECT_GT(repaired.of(RunPhase::kWait), 0);
  run.spares = 50;
  EXPECT_EQ(replay_failures(run, 1).of(RunPhase::kWait), 0);
}

}  // namespace
}  // namespace tessera
