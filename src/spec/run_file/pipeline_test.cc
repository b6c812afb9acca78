#include "spec/run_file/pipeline.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/message_of.h"

namespace tessera {
namespace {

std::string failure(const std::string& schedule, int64_t virtual_stages) {
  ParallelSpec parallel;
  parallel.virtual_stages = virtual_stages;
  return testing::message_of([&] {
    parallel.schedule = PipelineChoice::parse(schedule);
    resolve_schedule(parallel);
  });
}

TEST(PipelineSpecTest, StagesOfARankFollowFromTheSchedule) {
  const auto stages = [](PipelineKind kind) {
    ParallelSpec parallel;
    parallel.schedule = kind;
    resolve_schedule(parallel);
    return parallel.virtual_stages;
  };
  EXPECT_EQ(stages(PipelineKind::k1F1B), 1);
  EXPECT_EQ(stages(PipelineKind::kInterleaved), 2);
  EXPECT_EQ(stages(PipelineKind::kZbH2), 1);
  EXPECT_EQ(stages(PipelineKind::kZbV), 2);
  EXPECT_EQ(stages(PipelineKind::kDualPipeV), 2);
  EXPECT_EQ(stages(PipelineKind::kPipedream), 1);
}

TEST(PipelineSpecTest, EveryScheduleHasItsRow) {
  for (const ScheduleKind& kind : schedule_kinds()) {
    EXPECT_EQ(&schedule_kind(kind.kind), &kind) << name_of(kind.kind);
  }
  EXPECT_EQ(schedule_kinds().size(), kNamesOf<PipelineKind>.size());
  EXPECT_TRUE(schedule_kind(PipelineKind::kInterleaved).any_virtual_stages);
  EXPECT_TRUE(schedule_kind(PipelineKind::kPipedream2bw).asynchronous);
  EXPECT_FALSE(schedule_kind(PipelineKind::k1F1B).asynchronous);
}

TEST(PipelineSpecTest, RefusesWhatTheScheduleDoesNotHave) {
  EXPECT_EQ(failure("interleaved", 5), "no error");
  EXPECT_EQ(failure("gpipes", 0),
            "unknown schedule \"gpipes\" (the name of a file would end in .csv); did you mean "
            "'gpipe'?");
  EXPECT_EQ(
      failure("zb-h1", 2),
      "schedule zb-h1 has 1 stage per rank, but virtual_stages = 2; use virtual_stages = 1, or "
      "schedule = \"interleaved\"");
}

TEST(PipelineSpecTest, ReadsTheFileThatTheScheduleNames) {
  const FileReader reader = [](const std::string& path) { return "text of " + path; };
  ParallelSpec parallel;
  parallel.schedule = PipelineChoice::parse("mine.csv");
  read_schedule_file(parallel, reader);
  EXPECT_EQ(parallel.schedule_csv, "text of mine.csv");
  EXPECT_EQ(failure("mine.csv", 0), "no error");
  parallel.schedule = PipelineKind::kGPipe;
  read_schedule_file(parallel, reader);
  EXPECT_EQ(parallel.schedule_csv, "");
}

}  // namespace
}  // namespace tessera
