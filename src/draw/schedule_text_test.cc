#include "draw/schedule_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tessera {
namespace {

SimulatedSchedule simulated(std::string_view name, int ranks, int micro_batches) {
  return simulate_schedule(make_schedule(name, ranks, 0, micro_batches));
}

TEST(ScheduleTextTest, TimeRunsAcrossAndRanksDown) {
  EXPECT_EQ(schedule_text(simulated("1f1b", 2, 2)),
            "time   0  1  2  3  4  5  6  7  8\n"
            "rank 0 F0 F1 .  .  B0--- .  B1---\n"
            "rank 1 .  F0 B0--- F1 B1--- .  .\n");
}

TEST(ScheduleTextTest, SplitBackwardsHaveCellsOfTheirOwn) {
  EXPECT_EQ(schedule_text(simulated("zb-h1", 2, 2)),
            "time   0  1  2  3  4  5  6\n"
            "rank 0 F0 F1 .  I0 W0 I1 W1\n"
            "rank 1 .  F0 I0 F1 I1 W0 W1\n");
}

TEST(ScheduleTextTest, CellsNameTheStageWhereARankHoldsSeveral) {
  EXPECT_EQ(schedule_text(simulated("zb-v", 1, 2)),
            "time   0    1    2    3    4    5    6    7    8    9    10   11\n"
            "rank 0 F0.0 F1.0 I1.0 W1.0 F0.1 I0.0 W0.0 F1.1 I1.1 W1.1 I0.1 W0.1\n");
}

TEST(ScheduleTextTest, LongTimelinesGoOnInFurtherBlocks) {
  EXPECT_EQ(schedule_text(simulated("gpipe", 1, 2), 20),
            "time   0  1  2  3\n"
            "rank 0 F0 F1 B0---\n"
            "\n"
            "time   4  5\n"
            "rank 0 B1---\n");
  // However narrow, there is one unit in a line.
  EXPECT_NE(schedule_text(simulated("gpipe", 1, 2), 1).find("rank 0 F0\n"), std::string::npos);
}

TEST(ScheduleTextTest, UnevenTimesAreDrawnInUnitsOfTheShortest) {
  const SimulatedSchedule slow = simulate_schedule(
      make_schedule("gpipe", 1, 1, 1), {.forward = 0.5, .input_grad = 1, .weight_grad = 1});
  EXPECT_EQ(schedule_text(slow),
            "time   0  1  2  3  4\n"
            "rank 0 F0 B0---------\n");
}

TEST(ScheduleTextTest, TheTableCountsPerRank) {
  EXPECT_EQ(schedule_table(simulated("zb-v", 2, 4)),
            "rank  stages  busy  idle inside  live at most\n"
            "----  ------  ----  -----------  ------------\n"
            "   0  0 3       24            0             4\n"
            "   1  1 2       24            0             4\n");
}

TEST(ScheduleTextTest, TitlesCount) {
  EXPECT_EQ(schedule_title(make_schedule("gpipe", 1, 1, 1)),
            "gpipe: 1 rank, 1 stage, 1 micro-batch");
  EXPECT_EQ(schedule_title(make_schedule("zb-v", 2, 2, 4)),
            "zb-v: 2 ranks, 4 stages, 4 micro-batches");
  EXPECT_EQ(bubble_text(simulated("gpipe", 4, 4).facts), "bubble 42.9 %");
}

TEST(ScheduleJsonTest, HasEveryActionWithItsTimes) {
  const nlohmann::ordered_json json = schedule_json(simulated("1f1b", 2, 2));
  EXPECT_EQ(json.at("makespan"), 9);
  EXPECT_EQ(json.at("ranks").size(), 2U);
  EXPECT_EQ(json["ranks"][1].at("stages"), nlohmann::ordered_json({1}));
  EXPECT_EQ(json["ranks"][1].at("actions").size(), 4U);
  EXPECT_EQ(json["ranks"][1]["actions"][1].dump(), R"({"cell":"B1.0","begin":2.0,"end":4.0})");
}

}  // namespace
}  // namespace tessera
