#include "train/stop_report.h"

#include <gtest/gtest.h>

#include <csignal>

namespace tessera {
namespace {

TEST(StopReportTest, SaysHowLongTheEndTakes) {
  EXPECT_EQ(finishing_text({}), "");
  EXPECT_EQ(finishing_text({.steps_done = 9, .longest_step_us = 2000}), "");
  EXPECT_EQ(finishing_text({.steps_done = 11, .longest_step_us = 3'900'000}),
            "finishing step 12, about 4 s; ^C again ends at once");
  EXPECT_EQ(finishing_text({.steps_done = 11, .weight_bytes = 1'200'000'000, .saving = true}),
            "writing the weights of step 11, about 4 s; ^C again ends at once");
}

TEST(StopReportTest, SaysTheTruthAboutWeights) {
  EXPECT_EQ(stopped_text(SIGINT, {.steps_done = 12, .saved_step = 12}, "runs/demo"),
            "stopped by ^C after step 12; its weights are in runs/demo");
  EXPECT_EQ(
      stopped_text(SIGTERM, {.steps_done = 12, .saved_step = 12, .checkpoint_step = 12},
                   "runs/demo"),
      "stopped by SIGTERM after step 12; its weights are in runs/demo, and --resume auto goes on "
      "from its checkpoint");
  EXPECT_EQ(
      stopped_text(SIGTERM, {.steps_done = 12, .saved_step = 12, .checkpoint_step = 9},
                   "runs/demo"),
      "stopped by SIGTERM after step 12; its weights are in runs/demo, and --resume auto goes "
      "on after step 9");
  EXPECT_EQ(stopped_text(SIGINT, {.steps_done = 12, .checkpoint_step = 9}, "runs/demo"),
            "stopped by ^C after step 12; its weights were not saved in runs/demo, and --resume "
            "auto goes on after step 9");
  EXPECT_EQ(stopped_text(SIGTERM, {}, "runs/demo"),
            "stopped by SIGTERM before the first step was done; no weights were saved");
  EXPECT_EQ(stopped_text(SIGHUP, {.steps_done = 1200}, "runs/demo"),
            "stopped by SIGHUP after step 1200; no weights were saved in runs/demo, the work of "
            "1,200 steps is lost (--grace gives the end more time)");
  EXPECT_EQ(stopped_text(SIGINT, {.steps_done = 12, .saved_step = -1}, "runs/demo"),
            "stopped by ^C after step 12; its weights are not in runs/demo, for the reason above");
  EXPECT_EQ(stopped_text(SIGPIPE, {.steps_done = 3}, "runs/demo"), "");
}

}  // namespace
}  // namespace tessera
