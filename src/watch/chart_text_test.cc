#include "watch/chart_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/text/text.h"

namespace tessera {
namespace {

ChartSeries falling(const std::string& name, double from) {
  ChartSeries series{name, {}};
  for (int step = 1; step <= 50; ++step) {
    const double value = from / std::sqrt(step);
    series.points.push_back({static_cast<double>(step), value, value, value});
  }
  return series;
}

size_t widest(const std::string& text) {
  size_t most = 0;
  for (const std::string_view line : split(text, '\n')) {
    const auto letters =
        std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; });
    most = std::max(most, static_cast<size_t>(letters));
  }
  return most;
}

TEST(ChartTextTest, NoLineIsWiderThanAsked) {
  for (const int columns : {40, 60, 80, 200}) {
    for (const bool utf8 : {false, true}) {
      const std::string text = chart_text(
          {falling("a", 5)},
          {.title = "loss", .x_name = "step", .columns = columns, .rows = 12, .utf8 = utf8});
      EXPECT_LE(widest(text), static_cast<size_t>(columns));
      EXPECT_GE(widest(text), static_cast<size_t>(columns) - 4);
      EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 15);
      EXPECT_EQ(text.find(" \n"), std::string::npos);
    }
  }
}

TEST(ChartTextTest, WithoutUtf8OnlyAscii) {
  const std::string text = chart_text({falling("a", 5), falling("b", 2)},
                                      {.title = "loss", .x_name = "step", .utf8 = false});
  EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; }));
  EXPECT_NE(text.find('A'), std::string::npos);
  EXPECT_NE(text.find('B'), std::string::npos);
}

// A curve that falls begins in the first row on the left and ends in the last on the right.
TEST(ChartTextTest, AFallingCurveFalls) {
  const std::string text =
      chart_text({falling("a", 5)}, {.title = "loss", .x_name = "step", .rows = 8, .utf8 = false});
  const std::vector<std::string_view> lines = split(text, '\n');
  const size_t first = lines[1].find('*'), last = lines[8].rfind('*');
  ASSERT_NE(first, std::string::npos);
  ASSERT_NE(last, std::string::npos);
  EXPECT_LT(first, 8U);
  EXPECT_EQ(last, 79U);
}

TEST(ChartTextTest, OnePointAndAConstantAreDrawn) {
  for (const std::vector<CurvePoint>& points :
       {std::vector<CurvePoint>{{1, 4, 4, 4}},
        std::vector<CurvePoint>{{1, 0, 0, 0}, {9, 0, 0, 0}}}) {
    const std::string text =
        chart_text({{"a", points}}, {.title = "loss", .x_name = "step", .utf8 = false});
    EXPECT_NE(text.find('*'), std::string::npos);
  }
  EXPECT_EQ(chart_text({{"a", {}}}, {.title = "loss", .x_name = "step", .utf8 = false}).find('*'),
            std::string::npos);
}

TEST(AxisTest, TicksAreRoundAndInside) {
  EXPECT_EQ(ticks({0, 10}, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(ticks({1, 1000, true}, 5), (std::vector<double>{1, 10, 100, 1000}));
  for (const double size : {1e-9, 1e-4, 1.0, 37.0, 1e12}) {
    const std::vector<double> list = ticks({3 * size, 7 * size}, 4);
    EXPECT_GE(list.size(), 2U) << size;
    EXPECT_LE(list.size(), 6U) << size;
  }
  EXPECT_EQ(axis_text(0.0003), "0.0003");
  EXPECT_EQ(axis_text(1200), "1.2k");
  EXPECT_EQ(axis_text(3e7), "30M");
}

}  // namespace
}  // namespace tessera
