#include "draw/time_bars.h"

#include <gtest/gtest.h>

#include "base/testing/count_parts.h"

namespace tessera {
namespace {

using testing::count_parts;

std::string drawn(const std::vector<TimeBar>& bars) {
  SvgPage page;
  draw_bars(page, bars, 0, 20);
  draw_labels(page, bars, 0, 20);
  return page.str(100, 100, "", "");
}

TEST(TimeBarsTest, OnlyWideBarsHaveAnOutlineAndALabelThatFits) {
  EXPECT_EQ(count_parts(drawn({{0, 30, "#123456", "17"}}), "stroke-width"), 1U);
  EXPECT_EQ(count_parts(drawn({{0, 30, "#123456", "17"}}), ">17<"), 1U);
  EXPECT_EQ(count_parts(drawn({{0, 3.9, "#123456", "17"}}), "stroke-width"), 0U);
  EXPECT_EQ(count_parts(drawn({{0, 3.9, "#123456", "17"}}), ">17<"), 0U);
}

TEST(TimeBarsTest, NumbersOnAFewBarsOfManyAreLeftOut) {
  std::vector<TimeBar> bars;
  for (int i = 0; i < 64; ++i) bars.push_back({9.0 * i, 9, "#123456", std::to_string(i)});
  EXPECT_EQ(count_parts(drawn(bars), "<text"), 0U);  // 0 to 9 would fit
  bars.resize(20);
  EXPECT_EQ(count_parts(drawn(bars), "<text"), 10U);
}

TEST(TimeBarsTest, EqualNeighboursBelowAPixelAreOne) {
  const std::string svg =
      drawn({{0, 0.5, "#123456"}, {0.5, 0.5, "#123456"}, {1, 0.5, "#abcdef"}, {1.5, 2, "#123456"}});
  EXPECT_EQ(count_parts(svg, "#123456"), 2U);
  EXPECT_NE(svg.find("x=\"0\" y=\"0\" width=\"1\""), std::string::npos) << svg;
  EXPECT_EQ(count_parts(svg, "#abcdef"), 1U);
}

TEST(TimeBarsTest, SharesHaveTheHeightsOfTheTime) {
  SvgPage page;
  std::vector<TimeBar> bars;
  for (int i = 0; i < 8; ++i) {
    bars.push_back({1.0 * i, 0.25, "#111111"});
    bars.push_back({1.0 * i + 0.25, 0.5, "#222222"});
  }
  draw_shares(page, bars, {"#111111", "#222222"}, {0, 10, 8, 20}, 4);
  const std::string svg = page.str(100, 100, "", "");
  // Both slices are equal: one box of a quarter, one of a half that reaches a little behind it.
  EXPECT_NE(svg.find("x=\"0\" y=\"15\" width=\"8\" height=\"10.5\" fill=\"#222222\""),
            std::string::npos)
      << svg;
  EXPECT_NE(svg.find("x=\"0\" y=\"25\" width=\"8\" height=\"5\" fill=\"#111111\""),
            std::string::npos)
      << svg;
}

TEST(TimeBarsTest, TicksAreRound) {
  EXPECT_EQ(round_ticks(10.3), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(round_ticks(0), std::vector<double>{0});
  for (const double span : {1e-9, 0.0103, 0.9, 27.7, 3600.0, 1e6}) {
    const std::vector<double> ticks = round_ticks(span);
    EXPECT_GE(ticks.size(), 3U) << span;
    EXPECT_LE(ticks.size(), 9U) << span;
    EXPECT_LE(ticks.back(), span * 1.000001);
  }
  EXPECT_EQ(tick_text(0.002, 0.0103), "2 ms");
  EXPECT_EQ(tick_text(25, 27.7), "25 s");
  EXPECT_EQ(tick_text(0.5, 3.6), "0.5 s");
}

}  // namespace
}  // namespace tessera
