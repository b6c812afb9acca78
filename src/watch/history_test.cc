#include "watch/history.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tessera {
namespace {

// A file in memory, and what was read of it so far.
class File {
 public:
  void add(const std::string& line) {
    const auto begin = static_cast<int64_t>(text_.size());
    text_ += line + "\n";
    history.add(parse_metrics_line(line), line, begin, static_cast<int64_t>(text_.size()),
                reader());
  }
  void add_step(int64_t step, double loss) {
    add(fmt::format(R"({{"step":{},"loss":{},"lr":0.5}})", step, loss));
  }
  Series series(int64_t from, int64_t to, int64_t points) {
    lines_read = 0;
    return history.series(from, to, points, reader());
  }

  History history;
  int64_t lines_read = 0;

 private:
  History::ReadLines reader() {
    return [this](int64_t begin, int64_t end, const History::TakeLine& take) {
      for (auto at = static_cast<size_t>(begin); at < static_cast<size_t>(end);) {
        const size_t newline = text_.find('\n', at);
        take(parse_metrics_line(std::string_view(text_).substr(at, newline - at)));
        at = newline + 1;
        ++lines_read;
      }
    };
  }
  std::string text_;
};

TEST(HistoryTest, GivesFewLinesAsTheyAre) {
  File file;
  for (int step = 1; step <= 100; ++step) file.add_step(step, 1.0 / step);
  const Series series = file.series(1, 100, 2000);
  ASSERT_EQ(series.step.size(), 100U);
  EXPECT_EQ(series.lines_per_point, 1);
  EXPECT_EQ(series.step[41], 42);
  EXPECT_EQ(series.keys.at("loss").mean[41], 1.0 / 42);
  EXPECT_EQ(series.keys.at("lr").mean[99], 0.5);
  EXPECT_FALSE(series.keys.contains("step"));
}

TEST(HistoryTest, ManyLinesKeepTheirExtremesAndNoneIsLost) {
  File file;
  constexpr int kSteps = 100'000, kSpike = 54'321;
  for (int step = 1; step <= kSteps; ++step)
    file.add_step(step, step == kSpike ? 99 : 2 + step % 2);
  for (const int64_t points : {10, 500, 2000}) {
    const Series series = file.series(1, kSteps, points);
    EXPECT_LE(series.step.size(), static_cast<size_t>(points));
    EXPECT_GE(series.step.size(), static_cast<size_t>(points / 4));
    EXPECT_EQ(series.step.back(), kSteps);
    const SeriesOfKey& loss = series.keys.at("loss");
    double highest = 0, lowest = 100;
    for (size_t i = 0; i < series.step.size(); ++i) {
      highest = std::max(highest, loss.high[i]);
      lowest = std::min(lowest, loss.low[i]);
      const int64_t first = i == 0 ? 1 : series.step[i - 1] + 1;
      EXPECT_EQ(loss.high[i] == 99, first <= kSpike && kSpike <= series.step[i]);
    }
    EXPECT_EQ(highest, 99);
    EXPECT_EQ(lowest, 2);
    // Less than two points' worth of lines are read again.
    EXPECT_LE(file.lines_read, 2 * History::kLinesPerBlock);
  }
}

TEST(HistoryTest, AZoomIsExact) {
  File file;
  for (int step = 1; step <= 10'000; ++step) file.add_step(step, step);
  const Series series = file.series(5'000, 5'099, 200);
  ASSERT_EQ(series.step.size(), 100U);
  EXPECT_EQ(series.step.front(), 5'000);
  EXPECT_EQ(series.keys.at("loss").mean.back(), 5'099);
  // Also where blocks are put together, nothing from outside comes in.
  const Series wide = file.series(101, 9'899, 20);
  EXPECT_EQ(wide.keys.at("loss").low.front(), 101);
  EXPECT_EQ(wide.keys.at("loss").high.back(), 9'899);
  EXPECT_EQ(wide.step.back(), 9'899);
}

TEST(HistoryTest, AResumedRunReplacesWhatItDoesAgain) {
  File file;
  for (int step = 1; step <= 1000; ++step) file.add_step(step, 1);
  file.add(R"({"event":"resume","step":500})");
  for (int step = 501; step <= 700; ++step) file.add_step(step, 2);
  for (int step = 690; step <= 1200; ++step) file.add_step(step, 3);
  const Series series = file.series(0, 10'000, 5'000);
  ASSERT_EQ(series.step.size(), 1200U);
  for (size_t i = 0; i < 1200; ++i) {
    EXPECT_EQ(series.step[i], static_cast<int64_t>(i) + 1);
    EXPECT_EQ(series.keys.at("loss").mean[i], i < 500 ? 1 : i < 689 ? 2 : 3) << i;
  }
  const Series few = file.series(0, 10'000, 10);
  EXPECT_EQ(few.step.back(), 1200);
  EXPECT_TRUE(std::is_sorted(few.step.begin(), few.step.end()));
  EXPECT_EQ(file.history.events().size(), 1U);
}

TEST(HistoryTest, NotesWhatIsNotFiniteAndLeavesAHole) {
  File file;
  file.add_step(1, 1);
  file.add(R"({"step":2,"loss":"NaN","late":7})");
  file.add(R"({"step":3,"loss":"-Infinity"})");
  file.add(R"({"event":"nan","step":3,"loss":"NaN"})");
  const Series series = file.series(1, 3, 100);
  const SeriesOfKey& loss = series.keys.at("loss");
  EXPECT_EQ(loss.mean[0], 1);
  EXPECT_TRUE(std::isnan(loss.mean[1]) && std::isnan(loss.low[2]));
  EXPECT_TRUE(std::isnan(series.keys.at("late").mean[0]));
  EXPECT_EQ(series.keys.at("late").mean[1], 7);
  ASSERT_EQ(file.history.not_finite().size(), 2U);
  EXPECT_EQ(file.history.not_finite()[1].step, 3);
  EXPECT_EQ(file.history.not_finite()[1].key, "loss");
  EXPECT_EQ(file.history.events().front(), R"({"event":"nan","step":3,"loss":"NaN"})");
  EXPECT_EQ(file.history.last_line(), R"({"step":3,"loss":"-Infinity"})");
}

}  // namespace
}  // namespace tessera
