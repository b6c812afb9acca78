#include "compile/pipeline/schedule/run_schedule.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/message_of.h"
#include "compile/pipeline/schedule/schedule_csv.h"

namespace tessera {
namespace {

ParallelSpec pipeline(int64_t pp, const std::string& schedule) {
  ParallelSpec parallel;
  parallel.pp = pp;
  parallel.schedule = schedule;
  return parallel;
}

std::string failure(const ParallelSpec& parallel, int64_t micro_batches) {
  return testing::message_of([&] { run_schedule(parallel, micro_batches); });
}

TEST(RunScheduleTest, NamedSchedulesTakeTheKeysOfTheRunFile) {
  ParallelSpec parallel = pipeline(2, "interleaved");
  parallel.virtual_stages = 3;
  parallel.schedule_group = 4;
  EXPECT_EQ(run_schedule(parallel, 8).actions, make_schedule("interleaved", 2, 3, 8, 4).actions);
}

TEST(RunScheduleTest, OneRankHasOneStageWhateverTheSchedule) {
  for (const char* name : {"dualpipe-v", "pipedream", "mine.csv"}) {
    const PipelineSchedule schedule = run_schedule(pipeline(1, name), 3);
    EXPECT_EQ(schedule.stages, 1) << name;
    EXPECT_FALSE(schedule.asynchronous) << name;
    EXPECT_EQ(schedule.actions, make_schedule("1f1b", 1, 1, 3).actions) << name;
  }
}

TEST(RunScheduleTest, AFileMustFitTheRun) {
  ParallelSpec parallel = pipeline(2, "mine.csv");
  parallel.schedule_csv = to_csv(make_schedule("gpipe", 2, 1, 4));
  EXPECT_EQ(run_schedule(parallel, 4).actions, make_schedule("gpipe", 2, 1, 4).actions);
  EXPECT_EQ(
      failure(parallel, 6),
      "schedule mine.csv is for 4 micro-batches, but a step has 6 (global_batch / micro_batch "
      "/ dp / fsdp); change global_batch");
  parallel.virtual_stages = 2;
  EXPECT_EQ(failure(parallel, 4),
            "schedule mine.csv has 2 stages, but pp * virtual_stages = 2 * 2 = 4; leave out "
            "virtual_stages");
  parallel.pp = 3;
  EXPECT_EQ(failure(parallel, 4), "schedule mine.csv is for pp = 2, but pp = 3; use pp = 2");
}

TEST(RunScheduleTest, RefusesMoreThanCanBeWrittenOut) {
  const std::string text = failure(pipeline(2, "1f1b"), int64_t{1} << 40);
  EXPECT_NE(text.find("use at most 2097152 micro-batches"), std::string::npos) << text;
}

}  // namespace
}  // namespace tessera
