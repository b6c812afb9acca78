#include "compile/pipeline/schedule/schedule_csv.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/message_of.h"
#include "spec/run_file/pipeline.h"

namespace tessera {
namespace {

std::string failure(std::string_view text) {
  return testing::message_of([&] { schedule_from_csv(text, "mine.csv"); });
}

TEST(ScheduleCsvTest, WhatIsWrittenIsReadBack) {
  for (const std::string_view name : schedule_names()) {
    const PipelineSchedule schedule = make_schedule(name, 3, 0, 6);
    const PipelineSchedule again = schedule_from_csv(to_csv(schedule), "mine.csv");
    EXPECT_EQ(again.actions, schedule.actions) << name;
    EXPECT_EQ(again.rank_of_stage, schedule.rank_of_stage) << name;
    EXPECT_EQ(again.stages, schedule.stages) << name;
    EXPECT_EQ(again.micro_batches, 6) << name;
    EXPECT_EQ(again.name, "mine.csv");
    EXPECT_FALSE(again.asynchronous);
  }
}

TEST(ScheduleCsvTest, WritesOneLinePerRank) {
  EXPECT_EQ(to_csv(make_schedule("1f1b", 2, 1, 2)),
            "# 1f1b: 2 ranks, 2 stages, 2 micro-batches\n"
            "placement,0,1\n"
            "F0.0,F0.1,B0.0,B0.1\n"
            "F1.0,B1.0,F1.1,B1.1\n");
}

TEST(ScheduleCsvTest, TakesSpacesEmptyCellsCommentsAndAnyPlacement) {
  // Three stages on two ranks: the second rank has the two at the end.
  const PipelineSchedule schedule = schedule_from_csv(
      "# by hand\r\n"
      "placement, 0, 1, 1\r\n"
      "\r\n"
      "F0.0, , ,B0.0,,\r\n"
      "  # idle first\r\n"
      " ,F1.0,F2.0,I2.0,B1.0,W2.0\r\n",
      "mine.csv");
  EXPECT_EQ(schedule.ranks, 2);
  EXPECT_EQ(schedule.stages, 3);
  EXPECT_EQ(schedule.actions[0].size(), 2U);
  EXPECT_EQ(cell_text(schedule.actions[1].back()), "W2.0");
}

TEST(ScheduleCsvTest, NamesLineColumnAndCell) {
  EXPECT_EQ(failure(""), "mine.csv: the schedule is empty; begin with placement,0,1,…");
  EXPECT_EQ(failure("F0.0,B0.0\n"),
            "mine.csv:1:1: cell \"F0.0\": the first line is placement,0,1,…: the rank of every "
            "stage");
  EXPECT_EQ(failure("placement,\n"),
            "mine.csv:1:1: cell \"placement\": the ranks of the stages are missing");
  EXPECT_EQ(failure("placement,0,2\n"), "mine.csv:1:13: cell \"2\": expected a rank; use 0 to 1");
  EXPECT_EQ(failure("placement,-1\n"), "mine.csv:1:11: cell \"-1\": expected a rank; use 0 to 0");
  EXPECT_EQ(failure("placement,0,1\nF0.0,B0.0\n"),
            "mine.csv: the placement names ranks 0 to 1, but 1 lines follow it; write one line for "
            "each rank");
  EXPECT_EQ(failure("placement,0\n\nF0.0, X0.0\n"),
            "mine.csv:3:7: cell \"X0.0\": expected F, B, I or W, the stage, a dot and the "
            "micro-batch, as in F0.3");
  for (const char* cell : {"F", "F0", "F.", "F0.", "F.0", "F0.x", "F0.0.0", "F-1.0", "F0.-1",
                           "F0.99999999999", "f0.0"}) {
    const std::string text = failure(std::string("placement,0\n") + cell + "\n");
    EXPECT_EQ(text.find("mine.csv:2:1: cell"), 0U) << text;
  }
  EXPECT_EQ(failure("placement,0\nF1.0\n"),
            "mine.csv:2:1: cell \"F1.0\": there is no stage 1; the placement has 0 to 0");
  EXPECT_EQ(failure("placement,0\nF0.2000000000\n"),
            "mine.csv:2:1: cell \"F0.2000000000\": micro-batches go up to 4194303");
}

TEST(ScheduleCsvTest, RefusesCellsThatAreNoSchedule) {
  EXPECT_EQ(failure("placement,0\nF0.0,F0.1,B0.1\n"),
            "schedule mine.csv: rank 0, cell 4 (the end): B0.0 is missing\n"
            "  rank 0: F0.0 F0.1 B0.1 [end]");
}

}  // namespace
}  // namespace tessera
