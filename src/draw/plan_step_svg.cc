#include "draw/plan_step_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text/text.h"
#include "draw/category_color.h"
#include "draw/pass_color.h"
#include "plan/report/links.h"
#include "plan/report/misfit_text.h"

namespace tessera {
namespace {

constexpr double kRow = 19, kThick = 14, kLabel = 130;
constexpr double kFigure = 84;   // for a total behind the longest bar
constexpr double kLeastBar = 2;  // of a part that is there at all

struct TimePart {
  std::string name;
  double seconds = 0;
  std::string fill;
};

// In the colours of timelines: communication is red as in memory, and so is the optimizer purple.
std::vector<TimePart> time_parts(const StepTime& time) {
  constexpr double kPalest = 0.7;
  std::vector<TimePart> parts = {{"forward", time.forward_s, hex(kForwardColor)},
                                 {"backward", time.backward_s(), hex(kBackwardColor)}};
  const auto exposed = std::count_if(time.exposed_s.begin(), time.exposed_s.end(),
                                     [](double seconds) { return seconds > 0; });
  double shade = 0;
  for (int axis = 0; axis < kNumCommAxes; ++axis) {
    const double seconds = time.exposed_s[static_cast<size_t>(axis)];
    if (seconds <= 0) continue;
    parts.push_back({fmt::format("waits for {}", name_of(static_cast<CommAxis>(axis))), seconds,
                     hex(kExposedColor, kPalest * shade / static_cast<double>(exposed))});
    ++shade;
  }
  parts.push_back({"bubble", time.bubble_s, std::string(kIdle)});
  parts.push_back({"optimizer", time.optimizer_s, hex(color_of(ArenaKind::kOptimizer))});
  std::erase_if(parts, [](const TimePart& part) { return part.seconds <= 0; });
  return parts;
}

class StepStrip {
 public:
  StepStrip(SvgPage& page, const Plan& plan, const PageStrip& strip)
      : page_(page),
        plan_(plan),
        left_(strip.left),
        bars_(strip.left + kLabel),
        width_(strip.width - kLabel),
        y_(strip.top) {}

  double draw() {
    draw_places();
    draw_axes();
    draw_time();
    return y_;
  }

 private:
  void heading(const std::string& text) {
    y_ += 1.4 * kRow;
    page_.text(left_, y_, 12, kTitleInk, Anchor::kStart, text);
    y_ += 0.6 * kRow;
  }

  // The heaviest of every place in the pipeline.
  void draw_places() {
    std::map<int, const PlannedClass*> heaviest;
    for (const PlannedClass& one : plan_.classes) {
      const PlannedClass*& known = heaviest[one.pipeline_rank];
      if (known == nullptr || known->total_bytes() < one.total_bytes()) known = &one;
    }
    const int64_t most = std::max({plan_.limit_bytes, plan_.peak_bytes(), int64_t{1}});
    scale_ = (width_ - kFigure) / static_cast<double>(most);
    heading("memory of a rank by place in the pipeline");
    const double top = y_ - 4;
    limit_ = bars_ + scale_ * static_cast<double>(plan_.limit_bytes);
    for (const auto& [rank, one] : heaviest) draw_place(rank, *one);
    page_.dashes(limit_, top, limit_, y_, kTitleInk);
    const std::string text = fmt::format("limit {}", human_bytes(plan_.limit_bytes));
    const bool at_left = limit_ - text_pixels(text, 11) < bars_;
    page_.text(at_left ? limit_ - 1 : limit_ + 1, y_ + 11, 11, kTitleInk,
               at_left ? Anchor::kStart : Anchor::kEnd, text);
    y_ += 0.6 * kRow;
  }

  void draw_place(int rank, const PlannedClass& one) {
    page_.text(left_, y_ + 11, 11, kInk, Anchor::kStart, fmt::format("pipeline rank {}", rank));
    double x = bars_;
    for (const ArenaKind arena : kTrainingArenas) {
      const int64_t bytes = one.memory[static_cast<size_t>(arena)];
      if (bytes == 0) continue;
      const double width = std::max(scale_ * static_cast<double>(bytes), kLeastBar);
      fill_category(page_, arena, x, y_, width, kThick);
      x += width;
    }
    if (x > limit_) page_.hatch(limit_, y_, x - limit_, kThick);
    // Beside its bar, but never across the limit.
    const std::string total = human_bytes(one.total_bytes());
    const bool crosses = x < limit_ + 6 && x + 8 + text_pixels(total, 11) > limit_;
    page_.text((crosses ? limit_ : x) + 6, y_ + 11, 11,
               one.total_bytes() > plan_.limit_bytes ? kBadInk : kInk, Anchor::kStart, total);
    y_ += kRow;
  }

  // What every axis sends over the outermost link that it crosses.
  void draw_axes() {
    const PlannedStep& step = *plan_.step;
    double most = 0;
    for (const AxisTraffic& traffic : step.estimate.traffic) most = std::max(most, traffic.bytes);
    if (most <= 0) return;
    heading("sent by a rank per step, by axis: bytes, and how long the link is busy");
    for (int axis = 0; axis < kNumCommAxes; ++axis) {
      const AxisTraffic& traffic = step.estimate.traffic[static_cast<size_t>(axis)];
      if (traffic.bytes <= 0) continue;
      constexpr double kFigures = 190;
      const double width = std::max((width_ - kFigures) * traffic.bytes / most, kLeastBar);
      page_.text(left_, y_ + 11, 11, kInk, Anchor::kStart,
                 fmt::format("{} over {}", name_of(static_cast<CommAxis>(axis)),
                             link_name(step.cluster, traffic.level)));
      page_.area(bars_, y_, width, kThick, hex(kExposedColor, 0.4));
      page_.text(bars_ + width + 6, y_ + 11, 11, kInk, Anchor::kStart,
                 fmt::format("{}, {}", human_bytes(static_cast<int64_t>(traffic.bytes)),
                             short_seconds(traffic.busy_s)));
      y_ += kRow;
    }
  }

  void draw_time() {
    const Estimate& estimate = plan_.step->estimate;
    const double step = estimate.time.step_s;
    if (step <= 0) return;
    heading(fmt::format("a step of {}, MFU {:.1f} %", short_seconds(step), 100 * estimate.mfu));
    const std::vector<TimePart> parts = time_parts(estimate.time);
    double x = left_;
    const double whole = width_ + kLabel;
    for (const TimePart& part : parts) {
      const double width = std::max(whole * part.seconds / step, kLeastBar);
      page_.area(x, y_, std::min(width, left_ + whole - x), kThick, part.fill);
      x = std::min(x + width, left_ + whole - kLeastBar);
    }
    y_ += kThick + 8;
    draw_names(parts, step);
  }

  void draw_names(const std::vector<TimePart>& parts, double step) {
    double x = left_;
    for (const TimePart& part : parts) {
      const std::string text = fmt::format("{} {} ({})", part.name, short_seconds(part.seconds),
                                           percent_text(part.seconds, step));
      const double width = 15 + text_pixels(text, 11) + 18;
      if (x > left_ && x + width > left_ + kLabel + width_) {
        x = left_;
        y_ += kRow;
      }
      page_.area(x, y_, 11, 11, part.fill);
      page_.text(x + 15, y_ + 10, 11, kInk, Anchor::kStart, text);
      x += width;
    }
    y_ += kRow;
  }

  SvgPage& page_;
  const Plan& plan_;
  double left_, bars_, width_;
  double y_;
  double scale_ = 0, limit_ = 0;
};

}  // namespace

double draw_planned_step(SvgPage& page, const Plan& plan, const PageStrip& strip) {
  return StepStrip(page, plan, strip).draw();
}

}  // namespace tessera
