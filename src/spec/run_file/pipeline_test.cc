#include "spec/run_file/pipeline.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/message_of.h"

namespace tessera {
namespace {

std::string failure(const std::string& schedule, int64_t virtual_stages) {
  ParallelSpec parallel;
  parallel.schedule = schedule;
  parallel.virtual_stages = virtual_stages;
  return testing::message_of([&] { resolve_schedule(parallel); });
}

TEST(PipelineSpecTest, StagesOfARankFollowFromTheSchedule) {
  for (const ScheduleKind& kind : schedule_kinds()) {
    ParallelSpec parallel;
    parallel.schedule = kind.name;
    resolve_schedule(parallel);
    const bool two = kind.name == "interleaved" || kind.name == "zb-v" || kind.name == "dualpipe-v";
    EXPECT_EQ(parallel.virtual_stages, two ? 2 : 1) << kind.name;
  }
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
  parallel.schedule = "mine.csv";
  read_schedule_file(parallel, reader);
  EXPECT_EQ(parallel.schedule_csv, "text of mine.csv");
  EXPECT_EQ(failure("mine.csv", 0), "no error");
  parallel.schedule = "gpipe";
  read_schedule_file(parallel, reader);
  EXPECT_EQ(parallel.schedule_csv, "");
}

}  // namespace
}  // namespace tessera
