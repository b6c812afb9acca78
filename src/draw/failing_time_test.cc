#include "draw/failing_time.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/testing/count_parts.h"
#include "draw/palette.h"

namespace tessera {
namespace {

using testing::count_parts;

FailureReplay month(double days, double mtbf, double interval, int64_t spares = -1) {
  return replay_failures({.model = {.mtbf = mtbf, .stall = 20, .restart = 300},
                          .interval = interval,
                          .work = HUGE_VAL,
                          .until = days * 86400,
                          .spares = spares,
                          .repair = 86400},
                         1, true);
}

TEST(FailingTimeTest, AMonthHasARowForEveryDayAndFitsThePage) {
  const std::string svg = failing_time_svg(month(30, 10'000, 600), "30 days of a run", "how");
  EXPECT_TRUE(svg.starts_with("<svg ")) << svg.substr(0, 80);
  EXPECT_NE(svg.find("width=\"800\""), std::string::npos) << svg.substr(0, 160);
  EXPECT_NE(svg.find(">30 days of a run<"), std::string::npos);
  EXPECT_NE(svg.find(">day 30<"), std::string::npos);
  EXPECT_EQ(svg.find(">day 31<"), std::string::npos);
  for (const std::string what : {">training ", ">saves ", ">lost work ", ">restarts "}) {
    EXPECT_NE(svg.find(what), std::string::npos) << what;
  }
  EXPECT_EQ(svg.find(">waiting "), std::string::npos) << "nobody waits";
}

TEST(FailingTimeTest, EveryFailureIsSeen) {
  const FailureReplay replay = month(30, 40'000, 2000);
  const std::string svg = failing_time_svg(replay, "t", "s");
  const auto spans = std::count_if(replay.spans.begin(), replay.spans.end(),
                                   [](const RunSpan& s) { return s.phase == RunPhase::kRestart; });
  // One bar each (two where midnight comes in between), and the legend's.
  const size_t bars = count_parts(svg, std::string(palette::kOptimizer.light));
  EXPECT_GE(bars, static_cast<size_t>(spans) + 1);
  EXPECT_LE(bars, static_cast<size_t>(spans) + 5);
}

TEST(FailingTimeTest, SavesThatAreTooCloseAreSaidInsteadOfDrawn) {
  const std::string close = failing_time_svg(month(30, 10'000, 60), "t", "s");
  EXPECT_NE(close.find("too narrow to be drawn"), std::string::npos);
  const std::string apart = failing_time_svg(month(30, 1e6, 7200), "t", "s");
  EXPECT_EQ(apart.find("too narrow to be drawn"), std::string::npos);
  EXPECT_GT(count_parts(apart, std::string(palette::kActivations.light)), 300U);
}

TEST(FailingTimeTest, OtherTimesHaveOtherRows) {
  EXPECT_NE(failing_time_svg(month(0.2, 1000, 60), "t", "s").find(">day 1<"), std::string::npos);
  const std::string year = failing_time_svg(month(365, 1e6, 7200), "t", "s");
  EXPECT_NE(year.find(">day 361<"), std::string::npos) << "rows of twelve days";
  EXPECT_LT(count_parts(year, ">day "), 32U);
}

TEST(FailingTimeTest, LettersAreTheSharesOfTheTime) {
  const FailureReplay replay = month(30, 4000, 600, 0);
  const std::string text = failing_time_text(replay, 100);
  const std::string bars = text.substr(0, text.find("# training"));
  const auto letters = [&](char c) {
    return static_cast<double>(std::count(bars.begin(), bars.end(), c));
  };
  const double all = letters('#') + letters('x') + letters('s') + letters('r') + letters('w');
  EXPECT_NEAR(letters('w') / all, replay.of(RunPhase::kWait) / replay.total, 0.02) << text;
  EXPECT_NEAR(letters('#') / all, replay.of(RunPhase::kTrain) / replay.total, 0.02) << text;
  EXPECT_EQ(count_parts(text, "day "), 10U) << text;
}

}  // namespace
}  // namespace tessera
