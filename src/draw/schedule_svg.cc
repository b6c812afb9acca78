#include "draw/schedule_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "draw/pass_color.h"
#include "draw/svg.h"

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

constexpr double kMargin = 16, kLabel = 52, kRow = 26, kTitle = 40, kLegend = 44;
constexpr double kWidth = 1180;                   // of the timeline, at most
constexpr double kLeastUnit = 3, kMostUnit = 30;  // pixels of a unit of time

const PassStyle& style_of(StagePass pass) {
  return *std::find_if(kStyles.begin(), kStyles.end(),
                       [pass](const PassStyle& style) { return style.pass == pass; });
}

// Later chunks are mixed with white.
std::string fill_of(StagePass pass, int chunk, int chunks) {
  const double pale = chunks > 1 ? 0.55 * chunk / (chunks - 1) : 0.0;
  return hex(style_of(pass).color, pale);
}

class SvgTimeline {
 public:
  explicit SvgTimeline(const SimulatedSchedule& simulated)
      : schedule_(simulated.schedule), timeline_(simulated.timeline), facts_(simulated.facts) {
    const double makespan = std::max(timeline_.makespan, 1.0);
    unit_ = std::clamp(std::floor(kWidth / makespan), kLeastUnit, kMostUnit);
    for (int stage = 0; stage < schedule_.stages; ++stage) {
      chunk_of_.push_back(chunk_of_stage(schedule_, stage));
    }
    chunks_ = 1 + *std::max_element(chunk_of_.begin(), chunk_of_.end());
    width_ = std::max(2 * kMargin + kLabel + makespan * unit_, 560.0);
    height_ = kTitle + kRow * schedule_.ranks + kLegend + kMargin;
  }

  std::string str() {
    draw_title();
    for (int rank = 0; rank < schedule_.ranks; ++rank) draw_rank(rank);
    draw_legend();
    return page_.str(width_, height_);
  }

 private:
  void draw_title() {
    page_.text(kMargin, 25, 15, kTitleInk, Anchor::kStart,
               fmt::format("{}: {}, at most {} live", schedule_title(schedule_),
                           bubble_text(facts_), facts_.peak_live));
  }

  void draw_rank(int rank) {
    const double y = kTitle + kRow * rank;
    const double left = kMargin + kLabel;
    page_.text(kMargin, y + 17, 12, kInk, Anchor::kStart, fmt::format("rank {}", rank));
    page_.box(left, y, timeline_.makespan * unit_, kRow, kBlank);  // idle
    for (const TimedAction& timed : timeline_.ranks[static_cast<size_t>(rank)]) {
      const auto& [pass, stage, micro_batch] = timed.action;
      const double x = left + timed.begin * unit_;
      const double width = (timed.end - timed.begin) * unit_;
      const int chunk = chunk_of_[static_cast<size_t>(stage)];
      page_.box(x, y + 1, width, kRow - 2, fill_of(pass, chunk, chunks_));
      const std::string number = std::to_string(micro_batch);
      if (width < kLetterPixels * static_cast<double>(number.size()) + 2) continue;
      const bool pale = 2 * chunk >= chunks_;
      page_.text(x + width / 2, y + 17, 11, pale ? kTitleInk : kWhite, Anchor::kMiddle, number);
    }
  }

  [[nodiscard]] bool is_used(StagePass pass) const {
    return std::any_of(timeline_.ranks.begin(), timeline_.ranks.end(), [pass](const auto& actions) {
      return std::any_of(actions.begin(), actions.end(),
                         [pass](const TimedAction& timed) { return timed.action.pass == pass; });
    });
  }

  void draw_legend() {
    const double y = kTitle + kRow * schedule_.ranks + 16;
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
    page_.box(x, y, 14, 14, kBlank);
    x += 19;
    entry("idle");
    if (chunks_ > 1) entry("(dark to pale: first to last stage of a rank)");
  }

  const PipelineSchedule& schedule_;
  const ScheduleTimeline& timeline_;
  const ScheduleFacts& facts_;
  double unit_ = kMostUnit;
  double width_ = 0, height_ = 0;
  std::vector<int> chunk_of_;
  int chunks_ = 1;
  SvgPage page_;
};

}  // namespace

std::string schedule_svg(const SimulatedSchedule& simulated) {
  return SvgTimeline(simulated).str();
}

}  // namespace tessera
