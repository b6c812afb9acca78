#include "draw/failing_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "draw/letter_columns.h"
#include "draw/palette.h"
#include "draw/svg.h"
#include "draw/time_bars.h"

namespace tessera {
namespace {

constexpr double kDay = 86'400, kHour = 3600;
constexpr double kMargin = 16, kLabel = 62, kShare = 58, kWidth = 648, kRow = 13, kGap = 2;
constexpr double kAxis = 22, kLegend = 20;
constexpr double kLeastBar = 1.5;  // pixels: what happens seldom is still seen

// In the order of RunPhase.
constexpr std::array<PaletteColor, kNumRunPhases> kColors = {
    palette::kParameters, palette::kCommunication, palette::kActivations, palette::kWorkspace,
    palette::kOptimizer};
constexpr std::string_view kLetters = "#xswr.";

std::string fill_of(RunPhase phase) {
  return std::string(kColors[static_cast<size_t>(phase)].light);
}

// Rows of whole days where there are many, or of whole hours.
struct Rows {
  double span = 0;  // seconds of a row
  int count = 1;
};
Rows rows_of(double total, int most) {
  const double unit = total > kDay ? kDay : kHour;
  Rows rows{unit * std::ceil(total / unit / most), 1};
  if (total <= kDay) rows.span = std::max(total, 1.0);
  rows.count = std::max(1, static_cast<int>(std::ceil(total / rows.span - 1e-9)));
  return rows;
}

std::string row_label(const Rows& rows, int row) {
  const double day = row * rows.span / kDay;
  return fmt::format("day {:g}", day + 1);
}

class FailingTime {
 public:
  explicit FailingTime(const FailureReplay& replay)
      : replay_(replay), rows_(rows_of(replay.total, kMostRows)) {
    std::vector<double> saves;
    for (const RunSpan& span : replay.spans) {
      if (span.phase == RunPhase::kSave) saves.push_back((span.end - span.begin) * scale());
    }
    // Saves are drawn one by one where there is room between them.
    const double room =
        kWidth * rows_.count / static_cast<double>(std::max<size_t>(1, saves.size()));
    shows_saves_ = room > 4 * kLeastBar;
  }

  std::string str(const std::string& title, const std::string& subtitle) {
    for (const std::string& line : lines_of(title, 15, full_width() - 2 * kMargin)) {
      page_.text(kMargin, top_ + 9, 15, kTitleInk, Anchor::kStart, line);
      top_ += 19;
    }
    for (const std::string& line : lines_of(subtitle, 12, full_width() - 2 * kMargin)) {
      page_.text(kMargin, top_ + 7, 12, kInk, Anchor::kStart, line);
      top_ += 16;
    }
    top_ += 6;
    for (int row = 0; row < rows_.count; ++row) draw_row(row);
    draw_axis();
    draw_legend();
    return page_.str(full_width(), top_ + kMargin, title,
                     "what a run does over time: a row of bars for each day, coloured by training, "
                     "saves, work that a failure undid, restarts and waiting; at the end of a row "
                     "its useful share");
  }

 private:
  static constexpr int kMostRows = 31;
  static double full_width() { return 2 * kMargin + kLabel + kWidth + kShare; }
  static double left() { return kMargin + kLabel; }
  [[nodiscard]] double scale() const { return kWidth / rows_.span; }

  void draw_row(int row) {
    const double begin = row * rows_.span, end = std::min(begin + rows_.span, replay_.total);
    const double y = top_ + row * (kRow + kGap);
    page_.text(kMargin, y + kRow - 2, 11, kInk, Anchor::kStart, row_label(rows_, row));
    page_.area(left(), y, (end - begin) * scale(), kRow, fill_of(RunPhase::kTrain));
    double useful = 0;
    // Failures after saves: they are what the picture is about.
    for (const bool of_failures : {false, true}) {
      for (size_t i = first_; i < replay_.spans.size() && replay_.spans[i].begin < end; ++i) {
        const RunSpan& span = replay_.spans[i];
        if (span.end <= begin) {
          if (i == first_) ++first_;
          continue;
        }
        const double from = std::max(span.begin, begin), to = std::min(span.end, end);
        if (span.phase == RunPhase::kTrain) {
          if (of_failures) useful += to - from;
        } else if (of_failures == (span.phase != RunPhase::kSave)) {
          draw_span(span.phase, (from - begin) * scale(), (to - from) * scale(), y);
        }
      }
    }
    page_.text(left() + kWidth + kShare, y + kRow - 2, 11, kFaintInk, Anchor::kEnd,
               fmt::format("{:.1f} %", 100 * useful / std::max(end - begin, 1e-9)));
  }

  void draw_span(RunPhase phase, double x, double width, double y) {
    if (phase == RunPhase::kSave && !shows_saves_) return;
    const double least = std::max(width, kLeastBar);
    page_.area(left() + std::min(x, kWidth - least), y, least, kRow, fill_of(phase));
  }

  void draw_axis() {
    top_ += rows_.count * (kRow + kGap);
    for (const double hours : ticks()) {
      const double x = left() + hours * kHour * scale();
      page_.line(x, top_, x, top_ + 4, kFaintInk);
      page_.text(x, top_ + 16, 11, kFaintInk, hours == 0 ? Anchor::kStart : Anchor::kMiddle,
                 hours == 0 ? "0" : fmt::format("{:g} h", hours));
    }
    page_.text(left() + kWidth + kShare, top_ + 16, 11, kFaintInk, Anchor::kEnd, "useful");
    top_ += kAxis;
  }

  // A day has one every four hours.
  [[nodiscard]] std::vector<double> ticks() const {
    const double hours = rows_.span / kHour;
    double step = hours / 6;
    if (std::fmod(hours, 24) != 0) return round_ticks(hours);
    std::vector<double> all;
    for (int i = 0; i <= 6; ++i) all.push_back(i * step);
    return all;
  }

  void draw_legend() {
    top_ += 6;
    double x = kMargin;
    for (const RunPhase phase : kAllRunPhases) {
      const double seconds = replay_.of(phase);
      if (seconds <= 0) continue;
      std::string text = fmt::format("{} {:.4g} %", name_of(phase), 100 * seconds / replay_.total);
      if (phase == RunPhase::kSave && !shows_saves_) text += " (too narrow to be drawn)";
      const double width = 19 + kLetterPixels * static_cast<double>(text.size()) + 14;
      if (x > kMargin && x + width > full_width()) {
        x = kMargin;
        top_ += kLegend;
      }
      page_.box(x, top_, 14, 14, fill_of(phase));
      page_.text(x + 19, top_ + 12, 12, kInk, Anchor::kStart, text);
      x += width;
    }
    top_ += kLegend;
  }

  const FailureReplay& replay_;
  Rows rows_;
  bool shows_saves_ = false;
  size_t first_ = 0;  // the first span that is not over before the row
  double top_ = kMargin;
  SvgPage page_;
};

}  // namespace

std::string_view name_of(RunPhase phase) {
  switch (phase) {
    case RunPhase::kTrain:
      return "training";
    case RunPhase::kLost:
      return "lost work";
    case RunPhase::kSave:
      return "saves";
    case RunPhase::kWait:
      return "waiting";
    case RunPhase::kRestart:
      break;
  }
  return "restarts";
}

std::string failing_time_svg(const FailureReplay& replay, const std::string& title,
                             const std::string& subtitle) {
  return FailingTime(replay).str(title, subtitle);
}

std::string failing_time_text(const FailureReplay& replay, size_t columns) {
  constexpr size_t kUsual = 72, kLeast = 12, kMost = 144;
  constexpr int kMostRows = 10;
  const Rows rows = rows_of(replay.total, kMostRows);
  const size_t label = row_label(rows, rows.count - 1).size() + 2;
  const size_t width =
      columns == 0 ? kUsual : std::clamp(columns - std::min(columns, label), kLeast, kMost);
  LetterColumns letters(rows.span * rows.count, width * static_cast<size_t>(rows.count), kLetters);
  for (const RunSpan& span : replay.spans) {
    letters.add(kLetters[static_cast<size_t>(span.phase)], span.begin, span.end);
  }
  const std::string all = letters.str(/*in_turn=*/true);
  std::string text;
  for (int row = 0; row < rows.count; ++row) {
    std::string line = all.substr(static_cast<size_t>(row) * width, width);
    while (line.ends_with('.')) line.pop_back();
    text += fmt::format("{:<{}}{}\n", row_label(rows, row), label, line);
  }
  return text + "# training, s saves, x lost work, r restarts, w waiting\n";
}

}  // namespace tessera
