#include "draw/schedule_svg.h"

#include <gtest/gtest.h>

#include "base/testing/count_parts.h"
#include "draw/pass_color.h"
#include "draw/svg.h"

namespace tessera {
namespace {

using testing::count_parts;

std::string picture(const PipelineSchedule& schedule) {
  return schedule_svg(simulate_schedule(schedule));
}

TEST(ScheduleSvgTest, HasABoxPerActionANumberInEachAndALegend) {
  const std::string svg = picture(make_schedule("zb-h1", 3, 1, 4));
  EXPECT_TRUE(svg.starts_with("<svg ")) << svg.substr(0, 80);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  // Background, a row per rank, 3 passes for 3 * 4 cells, the legend's three passes and idle.
  EXPECT_EQ(count_parts(svg, "<rect"), 1U + 3 + 3 * 3 * 4 + 4);
  // The title, a label per rank, a number in every box, ticks 0 to 14 by twos, the legend.
  EXPECT_EQ(count_parts(svg, "<text"), 1U + 3 + 3 * 3 * 4 + 8 + 4);
  EXPECT_NE(svg.find("bubble 14.3 %"), std::string::npos) << svg;
  EXPECT_NE(svg.find(">weight gradient<"), std::string::npos);
  EXPECT_EQ(svg.find(">backward<"), std::string::npos);
}

TEST(ScheduleSvgTest, BoxesThatAreTooNarrowHaveNoNumber) {
  const std::string svg = picture(make_schedule("gpipe", 2, 1, 600));
  EXPECT_LT(count_parts(svg, "<text"), 100U);
}

TEST(ScheduleSvgTest, LongOnesStayOnThePageAndShowShares) {
  const std::string svg = picture(make_schedule("1f1b", 4, 1, 512));
  EXPECT_NE(svg.find("shares of the time"), std::string::npos);
  EXPECT_NE(svg.find("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1272\""), std::string::npos)
      << svg.substr(0, 120);
}

TEST(ScheduleSvgTest, NamesAreEscaped) {
  PipelineSchedule schedule = make_schedule("gpipe", 1, 1, 1);
  schedule.name = "a<b>&\n.csv";
  EXPECT_NE(picture(schedule).find(">a&lt;b&gt;&amp;\\n.csv: "), std::string::npos);
  schedule.name = "\033\u202e\xff.csv";
  EXPECT_NE(picture(schedule).find(">\\u001b\\u202e\\xff.csv: "), std::string::npos);
}

TEST(ScheduleSvgTest, ChunksDifferInShade) {
  const std::string svg = picture(make_schedule("zb-v", 2, 2, 4));
  EXPECT_NE(svg.find(hex(kForwardColor)), std::string::npos);
  EXPECT_NE(svg.find(hex(kForwardColor, 0.55)), std::string::npos);
  EXPECT_NE(svg.find("dark to pale"), std::string::npos);
  EXPECT_EQ(picture(make_schedule("gpipe", 2, 1, 4)).find("dark to pale"), std::string::npos);
}

}  // namespace
}  // namespace tessera
