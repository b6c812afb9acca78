#include "watch/run_metrics.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "watch/metrics_report.h"

namespace tessera {
namespace {

std::string line_of(int64_t step, const std::string& loss) {
  return fmt::format(R"({{"step":{},"time":{},"loss":{},"tokens":{},"tokens_per_s":100}})", step,
                     1000 + 6 * step, loss, 50 * step) +
         "\n";
}

RunMetrics read(const std::string& text, const MetricsQuery& query = {}) {
  std::istringstream in(text);
  return read_metrics(in, "run", query);
}

TEST(RunMetricsTest, ReadsStepsAndFigures) {
  const RunMetrics run = read(line_of(1, "4") + line_of(2, "2") + line_of(3, "3"));
  EXPECT_EQ(run.steps, 3);
  EXPECT_EQ(run.last_step, 3);
  EXPECT_EQ(run.seconds, 12);
  EXPECT_EQ(run.final_value, 3);
  EXPECT_EQ(run.lowest, 2);
  EXPECT_EQ(run.lowest_step, 2);
  EXPECT_EQ(run.keys, (std::vector<std::string>{"step", "time", "loss", "tokens", "tokens_per_s"}));
  ASSERT_EQ(run.curve.points().size(), 3U);
  EXPECT_EQ(run.curve.points()[1].mean, 2);
}

// At whatever byte the writer of the last line has stopped, the lines before it are read.
TEST(RunMetricsTest, ToleratesAHalfLastLine) {
  const std::string whole = line_of(1, "4") + line_of(2, "3");
  const size_t second = line_of(1, "4").size();
  for (size_t size = second; size < whole.size() - 1; ++size) {
    const RunMetrics run = read(whole.substr(0, size));
    EXPECT_EQ(run.steps, 1) << size;
    EXPECT_EQ(run.num_bad, 0) << size;
    EXPECT_EQ(run.growing, size > second) << size;
  }
  EXPECT_EQ(read(whole.substr(0, whole.size() - 1)).steps, 2);  // only the newline is missing
}

TEST(RunMetricsTest, NamesForeignLinesAndGoesOn) {
  const std::string text = line_of(1, "4") + "{\"step\":\n" + "[1]\n" + "{\"loss\":1}\n" +
                           "{\"step\":-1}\n" + std::string("\0\xff\n", 3) + line_of(2, "3");
  const RunMetrics run = read(text);
  EXPECT_EQ(run.steps, 2);
  EXPECT_EQ(run.num_bad, 5);
  ASSERT_EQ(run.bad.size(), 3U);
  EXPECT_EQ(run.bad[0].number, 2);
  EXPECT_EQ(run.bad[0].why, "it is not JSON");
  EXPECT_EQ(run.bad[1].why, "it is no JSON object");
  EXPECT_EQ(run.bad[2].why, "it has no whole number \"step\"");
  const auto notes = metrics_notes(run, "loss");
  EXPECT_EQ(notes.at(0), "run: line 2 is passed over: it is not JSON");
  EXPECT_EQ(notes.at(3), "run: 5 lines are passed over in all");
}

TEST(RunMetricsTest, PassesOverLinesOfAnyLength) {
  const RunMetrics run = read(std::string(3 << 20, '[') + "\n" + line_of(1, "4"));
  EXPECT_EQ(run.steps, 1);
  EXPECT_EQ(run.num_bad, 1);
  EXPECT_EQ(run.bad[0].why, "it is longer than 1 MiB");
}

TEST(RunMetricsTest, CountsWhatIsNotFinite) {
  const RunMetrics run = read(line_of(1, "4") + line_of(2, "\"NaN\"") +
                              "{\"event\":\"nan\",\"step\":3,\"loss\":\"NaN\"}\n");
  EXPECT_EQ(run.not_finite, 1);
  EXPECT_EQ(run.nan_step, 3);
  EXPECT_EQ(run.final_value, 4);
  EXPECT_EQ(run.curve.values(), 1);
}

TEST(RunMetricsTest, OtherKeysAndAxes) {
  const std::string text =
      "{\"step\":1,\"time\":60,\"tokens\":10,\"exposed_ms\":{\"dp all_reduce\":1.5}}\n"
      "{\"step\":2,\"time\":180,\"tokens\":20,\"exposed_ms\":{\"dp all_reduce\":2.5}}\n";
  const RunMetrics run = read(text, {.key = "exposed_ms.dp all_reduce", .x = CurveX::kMinutes});
  ASSERT_EQ(run.curve.points().size(), 2U);
  EXPECT_EQ(run.curve.points()[1].x, 2);
  EXPECT_EQ(run.curve.points()[1].mean, 2.5);
}

TEST(RunMetricsTest, LongRunsAreAveragedWithinBounds) {
  Curve curve(100);
  for (int64_t i = 1; i <= 1'000'000; ++i) {
    curve.add(static_cast<double>(i), i % 2 == 0 ? 1.0 : 3.0);
  }
  const std::vector<CurvePoint> points = curve.points();
  EXPECT_LE(points.size(), 101U);
  EXPECT_GE(points.size(), 50U);
  EXPECT_EQ(points.back().x, 1e6);
  for (const CurvePoint& point : points) EXPECT_NEAR(point.mean, 2, 0.01);
  EXPECT_EQ(points[0].low, 1);
  EXPECT_EQ(points[0].high, 3);
  EXPECT_EQ(curve.values(), 1'000'000);
}

TEST(RunMetricsTest, SmoothingStartsAtTheFirstValue) {
  Smoother smoother(0.9);
  EXPECT_DOUBLE_EQ(smoother.next(5), 5);
  EXPECT_NEAR(smoother.next(7), (0.1 * 7 + 0.09 * 5) / 0.19, 1e-12);
}

TEST(RunMetricsTest, CsvHasEveryNumberOfEveryRun) {
  const std::vector<std::string> texts = {line_of(1, "4") + "torn\n" + line_of(2, "\"NaN\""),
                                          "{\"step\":5,\"zz\":1}\n"};
  std::vector<RunMetrics> runs = {read(texts[0]), read(texts[1])};
  runs[1].name = "a,\"b\"";
  std::ostringstream out;
  write_metrics_csv(
      runs, [&](size_t i) { return std::make_unique<std::istringstream>(texts[i]); }, out);
  EXPECT_EQ(out.str(),
            "run,step,time,loss,tokens,tokens_per_s,zz\n"
            "run,1,1006,4,50,100,\n"
            "run,2,1012,nan,100,100,\n"
            "\"a,\"\"b\"\"\",5,,,,,1\n");
}

}  // namespace
}  // namespace tessera
