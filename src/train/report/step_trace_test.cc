#include "train/report/step_trace.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera {
namespace {

TEST(StepTraceTest, ReadsRangesOfSteps) {
  EXPECT_EQ(parse_step_range("3..5").first, 3);
  EXPECT_EQ(parse_step_range("3..5").last, 5);
  EXPECT_EQ(parse_step_range("3..5").count(), 3);
  EXPECT_EQ(parse_step_range("7").count(), 1);
  EXPECT_TRUE(parse_step_range("3..5").contains(5));
  EXPECT_FALSE(parse_step_range("3..5").contains(6));
  EXPECT_EQ(StepRange{}.count(), 0);
  for (const char* text : {"", "..", "3..", "..5", "5..3", "0..2", "a..b", "-1..2", "3-5",
                           "3..5..7", "99999999999999999999"}) {
    EXPECT_THROW(parse_step_range(text), ConfigError) << text;
  }
}

TEST(StepTraceTest, RefusesWhatCannotBeTraced) {
  RunSpec spec;
  spec.train.steps = 10;
  spec.train.device = TrainDevice::kCpu;
  EXPECT_NO_THROW(StepTrace(spec, {3, 5}, 1000));
  EXPECT_THROW(StepTrace(spec, {11, 12}, 1000), ConfigError);
  EXPECT_THROW(StepTrace(spec, {1, 10}, 1'000'000), ConfigError);
  spec.train.device = TrainDevice::kCuda;
  EXPECT_THROW(StepTrace(spec, {3, 5}, 1000), ConfigError);
  EXPECT_NO_THROW(StepTrace(spec, {}, 1000));  // nothing was asked for
}

}  // namespace
}  // namespace tessera
