#include "cli/terminal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "train/session/session.h"

namespace tessera {
namespace {

TEST(TerminalTest, CountsAndDurationsAreShort) {
  EXPECT_EQ(short_count(0), "0");
  EXPECT_EQ(short_count(999.4), "999");
  EXPECT_EQ(short_count(999.6), "1.00k");
  EXPECT_EQ(short_count(41234), "41.2k");
  EXPECT_EQ(short_count(3.146e6), "3.15M");
  EXPECT_EQ(short_count(std::nan("")), "?");
  EXPECT_EQ(short_duration(8.2), "8s");
  EXPECT_EQ(short_duration(59.6), "1m");
  EXPECT_EQ(short_duration(720), "12m");
  EXPECT_EQ(short_duration(11100), "3h 5m");
  EXPECT_EQ(short_duration(-1), "?");
}

TEST(TerminalTest, FailuresAreShortAndHarmless) {
  std::ostringstream out, err;
  Console console{.out = out, .err = err, .color = "always"};
  report_failure(console, "'" + std::string(5000, 'k') + "' has\033[2J a \u202e key");
  EXPECT_EQ(err.str(), "\033[1;31mtessera: error:\033[0m '" + std::string(199, 'k') +
                           "… (5,002 characters) has\\u001b[2J a \\u202e key\n");
}

TrainProgress at_step(int64_t step) {
  TrainProgress progress;
  progress.step = step;
  progress.steps = 1000;
  progress.loss = 3.21;
  progress.tokens_per_s = 41234;
  progress.eta_s = 720;
  return progress;
}

TEST(TerminalTest, ProgressIsOneLine) {
  TrainProgress progress = at_step(120);
  progress.lr = 3e-4;
  progress.grad_norm = 1.25;
  const std::string unknown_peak =
      "step 120/1000 12% | loss 3.2100 | 41.2k tok/s | ETA 12m | lr 3.0e-04 | grad 1.25";
  EXPECT_EQ(progress_text(progress), unknown_peak);
  progress.mfu = 0.4123;
  EXPECT_EQ(progress_text(progress), unknown_peak + " | MFU 41.2%");
}

TEST(TerminalTest, NarrowTerminalsGetWhatMattersMost) {
  TrainProgress progress = at_step(120);
  progress.mfu = 0.5;
  const std::string whole = progress_text(progress);
  for (int columns = 1; columns < 120; ++columns) {
    const std::string line = progress_text(progress, columns);
    EXPECT_TRUE(line.starts_with("step 120/1000 12%")) << columns;
    if (columns > 17) {
      EXPECT_LT(line.size(), static_cast<size_t>(columns));
    }
  }
  EXPECT_EQ(progress_text(progress, 1000), whole);
  EXPECT_EQ(progress_text(progress, 60), "step 120/1000 12% | loss 3.2100 | 41.2k tok/s | ETA 12m");
  EXPECT_EQ(progress_text(progress, 34), "step 120/1000 12% | loss 3.2100");
}

TEST(TerminalTest, ProgressIsCutAtTheWidthOfTheTerminal) {
  for (const size_t columns : {30U, 60U, 12U}) {
    std::ostringstream out, err;
    Console console{.out = out, .err = err};
    console.err_is_terminal = true;
    console.err_columns = [columns] { return columns; };
    ProgressLine(console).update(at_step(120));
    const std::string text = err.str();
    // Carriage return and erasing take no room, and further bytes of a character neither.
    const auto shown =
        std::count_if(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(text.find('\n')),
                      [](unsigned char c) { return (c & 0xC0U) != 0x80U; });
    EXPECT_LT(static_cast<size_t>(shown) - std::string_view("\r\033[K").size(), columns) << text;
    EXPECT_NE(text.find("step 120"), std::string::npos) << text;
    EXPECT_EQ(text.find("ETA") != std::string::npos, columns == 60) << text;
  }
}

TEST(TerminalTest, TablesAreStackedOnANarrowTerminalAndWholeInAPipe) {
  std::ostringstream out, err;
  Console console{.out = out, .err = err};
  const std::string table =
      "rank  parameters  total\n----  ----------  -----\n   0         123    456\n";
  EXPECT_EQ(fitted(console, table), table);
  console.out_columns = 20;
  EXPECT_EQ(fitted(console, table),
            "rank  parameters\n----  ----------\n   0         123\n\n"
            "rank  total\n----  -----\n   0    456\n");
}

// Runs 1000 steps of 20 ms each on a false clock and returns what was written.
std::string written(bool terminal, bool quiet) {
  std::ostringstream out, err;
  Console console{.out = out, .err = err};
  console.err_is_terminal = terminal;
  console.quiet = quiet;
  std::chrono::steady_clock::time_point now;
  ProgressLine line(console, [&] { return now; });
  for (int64_t step = 1; step <= 1000; ++step) {
    now += std::chrono::milliseconds(20);
    line.update(at_step(step));
  }
  line.finish();
  EXPECT_EQ(out.str(), "");
  return err.str();
}

TEST(TerminalTest, RedrawsAtMostTenTimesASecondOnATerminal) {
  const std::string text = written(/*terminal=*/true, /*quiet=*/false);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 201);  // 20 s, and the last step
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_NE(text.find("step 1000/1000 100%"), std::string::npos);
}

TEST(TerminalTest, WritesPlainLinesElsewhere) {
  const std::string text = written(/*terminal=*/false, /*quiet=*/false);
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_EQ(text.find('\033'), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);  // at once, after 10 s, the last step
}

TEST(TerminalTest, QuietWritesNothing) { EXPECT_EQ(written(true, true), ""); }

TEST(TerminalTest, ColorFollowsTheTerminalUnlessTold) {
  std::ostringstream out, err;
  Console console{.out = out, .err = err};
  EXPECT_FALSE(console.colored());
  console.err_is_terminal = true;
  EXPECT_TRUE(console.colored());
  console.color_wanted = false;
  EXPECT_FALSE(console.colored());
  console.color = "always";
  EXPECT_TRUE(console.colored());
  console.color_wanted = true;
  console.color = "never";
  EXPECT_FALSE(console.colored());
}

}  // namespace
}  // namespace tessera
