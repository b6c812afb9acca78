#include "draw/step_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/ranks_text.h"
#include "draw/pass_color.h"
#include "draw/run_title.h"
#include "draw/step_text.h"
#include "draw/svg.h"

namespace tessera {
namespace {

constexpr double kMargin = 16, kRow = 26, kTitle = 44, kAxis = 22, kLegend = 30;
constexpr double kWidth = 1100;       // of the timeline
constexpr double kLeastPixels = 0.5;  // what is narrower is drawn with its neighbour
constexpr size_t kMostRows = 64;

// In the order of SegmentKind.
constexpr std::array<Color, kNumSegmentKinds> kColors = {
    kForwardColor, kBackwardColor, kInputGradColor, kWeightGradColor, kUpdateColor};

class StepPicture {
 public:
  StepPicture(const StepTimeline& timeline, const std::vector<RankActivity>& activities,
              const std::string& title)
      : timeline_(timeline),
        activities_(activities),
        title_(title),
        rows_(rows_to_show(timeline, activities)),
        scale_(timeline.makespan > 0 ? kWidth / timeline.makespan : 0) {
    left_out_ = rows_.size() - std::min(rows_.size(), kMostRows);
    rows_.resize(rows_.size() - left_out_);
    for (const ShownRow& row : rows_) {
      left_ = std::max(left_, kMargin + text_pixels(ranks_text(row.ranks), 12) + 10);
    }
  }

  std::string str() {
    page_.text(kMargin, 26, 15, kTitleInk, Anchor::kStart, title_);
    for (size_t r = 0; r < rows_.size(); ++r) draw_row(r);
    draw_axis();
    draw_legend();
    const double height = bottom() + kAxis + kLegend + kMargin;
    return page_.str(left_ + kWidth + kMargin + 30, height);
  }

 private:
  [[nodiscard]] double bottom() const { return kTitle + kRow * static_cast<double>(rows_.size()); }
  [[nodiscard]] double x_of(double seconds) const {
    // Hundredths of a pixel: more would only make the file longer.
    return left_ + std::floor(seconds * scale_ * 100 + 0.5) / 100;
  }

  void draw_row(size_t r) {
    const RankActivity& activity = activities_[rows_[r].of_class];
    const double y = kTitle + kRow * static_cast<double>(r);
    page_.text(kMargin, y + 17, 12, kInk, Anchor::kStart, ranks_text(rows_[r].ranks));
    page_.box(left_, y, kWidth, kRow, kBlank);
    double drawn = 0;  // up to where
    for (const Segment& segment : activity.segments) {
      const double x = std::max(drawn, x_of(segment.begin)), end = x_of(segment.end);
      if (end - x < kLeastPixels) continue;
      draw_segment(segment, x, end - x, y);
      drawn = end;
    }
    for (const Wait& wait : activity.waits) {
      const double x = x_of(wait.begin), width = x_of(wait.end) - x;
      if (width < kLeastPixels) continue;
      page_.area(x, y + 1, width, kRow - 2, wait.group.empty() ? std::string(kBlank) : exposed());
    }
  }

  void draw_segment(const Segment& segment, double x, double width, double y) {
    page_.box(x, y + 1, width, kRow - 2, hex(kColors[static_cast<size_t>(segment.kind)]));
    if (segment.micro_batch < 0) return;
    const std::string number = std::to_string(segment.micro_batch);
    if (width < kLetterPixels * static_cast<double>(number.size()) + 2) return;
    page_.text(x + width / 2, y + 17, 11, kWhite, Anchor::kMiddle, number);
  }

  static std::string exposed() { return hex(kExposedColor); }

  void draw_axis() {
    constexpr int kTicks = 5;
    for (int tick = 0; tick <= kTicks; ++tick) {
      const double at = timeline_.makespan * tick / kTicks;
      page_.text(x_of(at), bottom() + 15, 11, kFaintInk,
                 tick == 0 ? Anchor::kStart : Anchor::kMiddle, seconds_text(at));
    }
  }

  void draw_legend() {
    const double y = bottom() + kAxis + 8;
    double x = left_;
    const auto entry = [&](const std::string& fill, std::string_view meaning) {
      page_.box(x, y, 14, 14, fill);
      page_.text(x + 19, y + 12, 12, kInk, Anchor::kStart, meaning);
      x += 19 + kLetterPixels * static_cast<double>(meaning.size()) + 22;
    };
    for (int kind = 0; kind < kNumSegmentKinds; ++kind) {
      const auto segment_kind = static_cast<SegmentKind>(kind);
      const bool used =
          std::any_of(activities_.begin(), activities_.end(), [&](const RankActivity& activity) {
            return std::any_of(activity.segments.begin(), activity.segments.end(),
                               [&](const Segment& s) { return s.kind == segment_kind; });
          });
      if (used) entry(hex(kColors[static_cast<size_t>(kind)]), name_of(segment_kind));
    }
    entry(exposed(), "waits for communication");
    entry(std::string(kBlank), "idle");
    if (left_out_ == 0) return;
    page_.text(x, y + 12, 12, kFaintInk, Anchor::kStart,
               fmt::format("and {} more kinds of rank", left_out_));
  }

  const StepTimeline& timeline_;
  const std::vector<RankActivity>& activities_;
  const std::string& title_;
  std::vector<ShownRow> rows_;
  size_t left_out_ = 0;
  double scale_;
  double left_ = kMargin;
  SvgPage page_;
};

}  // namespace

std::string step_svg(const StepTimeline& timeline, const std::vector<RankActivity>& activities,
                     const std::string& title) {
  return StepPicture(timeline, activities, title).str();
}

}  // namespace tessera
