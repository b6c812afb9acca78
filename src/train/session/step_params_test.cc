#include "train/session/step_params.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tessera {
namespace {

// The rates of 10 steps, of which the first two warm up, from 1 to 0.2.
std::vector<double> rates(LrSchedule schedule, double min_lr = 0.2, int64_t decay_steps = 0,
                          double decay_share = 0) {
  OptimizerSpec o;
  o.lr = 1;
  o.min_lr = min_lr;
  o.warmup = 2;
  o.schedule = schedule;
  o.decay_steps = decay_steps;
  o.decay_share = decay_share;
  std::vector<double> values;
  for (int64_t step = 1; step <= 10; ++step) values.push_back(learning_rate(o, step, 10));
  return values;
}

void expect_rates(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-15) << "step " << i + 1;
}

TEST(LearningRate, ConstantStaysAfterTheWarmUp) {
  expect_rates(rates(LrSchedule::kConstant, 0), {0.5, 1, 1, 1, 1, 1, 1, 1, 1, 1});
}

TEST(LearningRate, LinearFallsByTheSameInEveryStep) {
  expect_rates(rates(LrSchedule::kLinear), {0.5, 1, 1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3});
}

TEST(LearningRate, CosineFallsByHalfAWave) {
  const double c1 = std::sqrt(2 + std::sqrt(2)) / 2;  // cos(pi / 8)
  const double c2 = std::sqrt(0.5);
  const double c3 = std::sqrt(2 - std::sqrt(2)) / 2;
  expect_rates(rates(LrSchedule::kCosine),
               {0.5, 1, 1, 0.6 + 0.4 * c1, 0.6 + 0.4 * c2, 0.6 + 0.4 * c3, 0.6, 0.6 - 0.4 * c3,
                0.6 - 0.4 * c2, 0.6 - 0.4 * c1});
}

TEST(LearningRate, WsdStaysAndFallsInItsLastSteps) {
  expect_rates(rates(LrSchedule::kWsd, 0.2, 4), {0.5, 1, 1, 1, 1, 1, 1, 0.8, 0.6, 0.4});
  expect_rates(rates(LrSchedule::kWsd, 0.2, 0, 0.4), rates(LrSchedule::kWsd, 0.2, 4));
  // Unless told otherwise the last tenth: one step, which begins at the top.
  expect_rates(rates(LrSchedule::kWsd), {0.5, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  // All of it: from the end of the warm-up on.
  expect_rates(rates(LrSchedule::kWsd, 0.2, 10), rates(LrSchedule::kLinear));
}

TEST(LearningRate, InverseSquareRootIsContinuousAndHasAFloor) {
  const auto at = [](double step) { return std::sqrt(2 / step); };
  expect_rates(rates(LrSchedule::kInverseSqrt, 0.5),
               {0.5, 1, at(3), at(4), at(5), at(6), at(7), 0.5, 0.5, 0.5});
}

TEST(LearningRate, ARunShorterThanItsWarmUpOnlyRises) {
  OptimizerSpec o;
  o.lr = 1;
  o.warmup = 4;
  for (const LrSchedule schedule : {LrSchedule::kLinear, LrSchedule::kWsd}) {
    o.schedule = schedule;
    EXPECT_EQ(learning_rate(o, 1, 2), 0.25);
    EXPECT_EQ(learning_rate(o, 2, 2), 0.5);
  }
}

}  // namespace
}  // namespace tessera
