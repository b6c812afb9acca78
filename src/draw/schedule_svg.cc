#include "draw/schedule_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "draw/pass_color.h"
#include "draw/svg.h"
#include "draw/time_bars.h"

namespace tessera {
namespace {

struct PassStyle {
  StagePass pass;
  Color color;
  std::string_view meaning;
};
constexpr std::array<PassStyle, 4> kStyles = {{
    {StagePass::kForward, kForwardColor, "forward"},
    {StagePass::kBackward, kBackwardColor, "backward"},
    {StagePass::kInputGrad, kInputGradColor, "input gradient"},
    {StagePass::kWeightGrad, kWeightGradColor, "weight gradient"},
}};

constexpr double kMargin = 16, kLabel = 60, kRow = 26, kTitle = 40, kAxis = 22, kLegend = 30;
constexpr double kWidth = 1180;   // of the timeline, at most
constexpr double kMostUnit = 30;  // pixels of a unit of time

const PassStyle& style_of(StagePass pass) {
  return *std::find_if(kStyles.begin(), kStyles.end(),
                       [pass](const PassStyle& style) { return style.pass == pass; });
}

// Later chunks are mixed with white.
double paleness(int chunk, int chunks) { return chunks > 1 ? 0.55 * chunk / (chunks - 1) : 0.0; }
std::string fill_of(StagePass pass, int chunk, int chunks) {
  return hex(style_of(pass).color, paleness(chunk, chunks));
}

class SvgTimeline {
 public:
  // `of`: what takes seconds so; empty: units of time.
  explicit SvgTimeline(const SimulatedSchedule& simulated, std::string of = "")
      : schedule_(simulated.schedule),
        timeline_(simulated.timeline),
        facts_(simulated.facts),
        of_(std::move(of)) {
    double makespan = std::max(timeline_.makespan, 1.0);
    unit_ = std::min(kWidth / makespan, kMostUnit);
    if (unit_ > 2) unit_ = std::floor(unit_);
    if (!of_.empty() && timeline_.makespan > 0) {
      makespan = timeline_.makespan;
      unit_ = kWidth / makespan;
    }
    for (int stage = 0; stage < schedule_.stages; ++stage) {
      chunk_of_.push_back(chunk_of_stage(schedule_, stage));
    }
    chunks_ = 1 + *std::max_element(chunk_of_.begin(), chunk_of_.end());
    width_ = std::max(2 * kMargin + kLabel + makespan * unit_, 560.0);
    height_ = bottom() + kAxis + kLegend + kMargin;
    std::vector<double> widths;
    for (const auto& actions : timeline_.ranks) {
      for (const TimedAction& timed : actions) widths.push_back((timed.end - timed.begin) * unit_);
    }
    slice_ = slice_for(widths);
    as_shares_ = are_too_narrow(widths);
  }

  std::string str() {
    const std::string title =
        fmt::format("{}{}{}: {}, at most {} live", of_, of_.empty() ? "" : "; ",
                    schedule_title(schedule_), bubble_text(facts_), facts_.peak_live);
    width_ = std::max(width_, text_pixels(title, 15) + 2 * kMargin);
    page_.text(kMargin, 25, 15, kTitleInk, Anchor::kStart, title);
    for (int rank = 0; rank < schedule_.ranks; ++rank) draw_rank(rank);
    draw_axis();
    draw_legend();
    return page_.str(width_, height_, title,
                     "what every rank of the pipeline does over time: a row per rank, a box per "
                     "pass with the number of its micro-batch");
  }

 private:
  [[nodiscard]] double bottom() const { return kTitle + kRow * schedule_.ranks; }

  void draw_axis() {
    for (const double at : round_ticks(timeline_.makespan)) {
      const double x = kMargin + kLabel + at * unit_;
      page_.line(x, bottom(), x, bottom() + 4, kFaintInk);
      page_.text(x, bottom() + 17, 11, kFaintInk, at == 0 ? Anchor::kStart : Anchor::kMiddle,
                 of_.empty() ? fmt::format("{:g}", at) : tick_text(at, timeline_.makespan));
    }
  }

  void draw_rank(int rank) {
    const double y = kTitle + kRow * rank;
    const double left = kMargin + kLabel;
    page_.text(kMargin, y + 17, 12, kInk, Anchor::kStart, fmt::format("rank {}", rank));
    page_.box(left, y, timeline_.makespan * unit_, kRow, kIdle);
    std::vector<TimeBar> bars;
    for (const TimedAction& timed : timeline_.ranks[static_cast<size_t>(rank)]) {
      const auto& [pass, stage, micro_batch] = timed.action;
      const int chunk = chunk_of_[static_cast<size_t>(stage)];
      bars.push_back({left + timed.begin * unit_, (timed.end - timed.begin) * unit_,
                      fill_of(pass, chunk, chunks_), std::to_string(micro_batch),
                      ink_on(style_of(pass).color, paleness(chunk, chunks_))});
    }
    if (as_shares_) {
      const BarLane lane = {left, y + 1, timeline_.makespan * unit_, kRow - 2};
      draw_shares(page_, bars, fills(), lane, slice_);
    } else {
      draw_bars(page_, bars, y + 1, kRow - 2);
      draw_labels(page_, bars, y + 1, kRow - 2);
    }
  }

  [[nodiscard]] std::vector<std::string> fills() const {
    std::vector<std::string> all;
    for (const PassStyle& style : kStyles) {
      for (int chunk = 0; chunk < chunks_; ++chunk) {
        all.push_back(fill_of(style.pass, chunk, chunks_));
      }
    }
    return all;
  }

  [[nodiscard]] bool is_used(StagePass pass) const {
    return std::any_of(timeline_.ranks.begin(), timeline_.ranks.end(), [pass](const auto& actions) {
      return std::any_of(actions.begin(), actions.end(),
                         [pass](const TimedAction& timed) { return timed.action.pass == pass; });
    });
  }

  void draw_legend() {
    const double y = bottom() + kAxis + 16;
    double x = kMargin + kLabel;
    const auto entry = [&](std::string_view meaning) {
      page_.text(x, y + 12, 12, kInk, Anchor::kStart, meaning);
      x += kLetterPixels * static_cast<double>(meaning.size()) + 22;
    };
    for (const PassStyle& style : kStyles) {
      if (!is_used(style.pass)) continue;
      for (int chunk = 0; chunk < chunks_; ++chunk) {
        page_.box(x, y, 14, 14, fill_of(style.pass, chunk, chunks_));
        x += 15;
      }
      x += 4;
      entry(style.meaning);
    }
    page_.box(x, y, 14, 14, kIdle);
    x += 19;
    entry("idle");
    if (as_shares_) entry("(heights: shares of the time)");
    if (chunks_ > 1) entry("(dark to pale: first to last stage of a rank)");
  }

  const PipelineSchedule& schedule_;
  const ScheduleTimeline& timeline_;
  const ScheduleFacts& facts_;
  std::string of_;
  double unit_ = kMostUnit;
  double width_ = 0, height_ = 0;
  double slice_ = 0;
  bool as_shares_ = false;  // passes are too narrow to be drawn one by one
  std::vector<int> chunk_of_;
  int chunks_ = 1;
  SvgPage page_;
};

}  // namespace

std::string schedule_svg(const SimulatedSchedule& simulated) {
  return SvgTimeline(simulated).str();
}

std::string schedule_svg_in_seconds(const SimulatedSchedule& simulated, const std::string& title) {
  return SvgTimeline(simulated, title).str();
}

}  // namespace tessera
