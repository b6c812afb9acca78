#include "launch/stop_time.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

using std::chrono::milliseconds;

TEST(StopTimeTest, ARunWithoutAStepHasNothingToLose) {
  EXPECT_EQ(stop_time({}, milliseconds(1500)), milliseconds(1500));
  EXPECT_EQ(stop_time({}, milliseconds(0)), milliseconds(0));
  EXPECT_EQ(expected_stop_time({}), milliseconds(0));
}

TEST(StopTimeTest, AStepGetsMoreThanTheLongestTook) {
  const RunState state{.steps_done = 3, .longest_step_us = 4'000'000};
  EXPECT_GT(stop_time(state, milliseconds(0)), milliseconds(8000));
  EXPECT_EQ(stop_time(state, milliseconds(60'000)), milliseconds(60'000));
  EXPECT_EQ(expected_stop_time(state), milliseconds(4000));
}

TEST(StopTimeTest, WeightsGetTimeByTheirSize) {
  RunState state{.steps_done = 3, .longest_step_us = 1000, .weight_bytes = 16'000'000'000};
  const milliseconds before = stop_time(state, milliseconds(0));
  state.saving = true;
  EXPECT_GT(stop_time(state, milliseconds(0)) - before, milliseconds(600'000));
}

TEST(StopTimeTest, AFileThatGrowsIsWaitedFor) {
  RunState state{.steps_done = 1, .weight_bytes = 400'000'000, .saving = true};
  const milliseconds at_first = stop_time(state, milliseconds(0));
  state.saving_us = 300'000'000;
  EXPECT_EQ(stop_time(state, milliseconds(0)), at_first + milliseconds(300'000));
}

}  // namespace
}  // namespace tessera
