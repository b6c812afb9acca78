#include "draw/run_plan_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "base/text.h"
#include "draw/category_color.h"
#include "draw/svg.h"

namespace tessera {
namespace {

constexpr double kMargin = 16, kLabel = 150, kBar = 520, kRow = 20, kThick = 14, kFigures = 190;
constexpr double kWidth = 2 * kMargin + kLabel + kBar + kFigures;

struct TimePart {
  std::string name;
  double seconds = 0;
  Color color;
};

std::vector<TimePart> time_parts(const StepTime& time) {
  constexpr std::array<Color, kNumCommAxes> kAxes = {
      {{200, 84, 84}, {216, 118, 96}, {186, 92, 140}, {226, 146, 52}, {138, 106, 184}}};
  std::vector<TimePart> parts = {{"kernels", time.compute_s, {66, 133, 200}}};
  for (int axis = 0; axis < kNumCommAxes; ++axis) {
    const auto a = static_cast<size_t>(axis);
    parts.push_back({fmt::format("exposed: {}", name_of(static_cast<CommAxis>(axis))),
                     time.exposed_s[a], kAxes[a]});
  }
  parts.push_back({"bubble", time.bubble_s, {200, 200, 200}});
  parts.push_back({"optimizer", time.optimizer_s, {46, 148, 110}});
  std::erase_if(parts, [](const TimePart& part) { return part.seconds <= 0; });
  return parts;
}

class RunPlanPicture {
 public:
  explicit RunPlanPicture(const RunPlan& plan) : plan_(plan) {}

  std::string str() {
    const ModelSpec& model = plan_.ranks.spec.model;
    page_.text(kMargin, 24, 15, kTitleInk, Anchor::kStart,
               fmt::format("{} on {} x {}", model.preset.empty() ? "a model" : model.preset,
                           plan_.cluster.devices, plan_.cluster.device.name));
    y_ = 50;
    draw_memory();
    y_ += kRow;
    draw_time();
    return page_.str(kWidth, y_ + kMargin);
  }

 private:
  void draw_legend() {
    double x = kMargin;
    for (const ArenaKind arena : kAllArenas) {
      page_.area(x, y_ - 9, 10, 10, hex(color_of(arena)));
      page_.text(x + 14, y_, 11, kInk, Anchor::kStart, name_of(arena));
      x += 26 + text_pixels(name_of(arena), 11);
    }
    y_ += kRow;
  }

  void draw_memory() {
    page_.text(kMargin, y_, 12, kInk, Anchor::kStart, "memory of a rank by place in the pipeline");
    y_ += kRow;
    draw_legend();
    std::map<int, const ClassPlan*> heaviest;
    int64_t most = plan_.limit_bytes;
    for (const ClassPlan& one : plan_.ranks.classes) {
      const ClassPlan*& known = heaviest[one.ranks.pipeline_rank];
      if (known == nullptr || known->total_bytes() < one.total_bytes()) known = &one;
      most = std::max(most, one.total_bytes());
    }
    const double scale = most > 0 ? kBar / static_cast<double>(most) : 0;
    const double top = y_ - 6;
    for (const auto& [rank, one] : heaviest) {
      page_.text(kMargin, y_ + 11, 11, kInk, Anchor::kStart, fmt::format("pipeline rank {}", rank));
      double x = kMargin + kLabel;
      for (const ArenaKind arena : kAllArenas) {
        const double width = scale * static_cast<double>(one->memory[static_cast<size_t>(arena)]);
        page_.area(x, y_, width, kThick, hex(color_of(arena)));
        x += width;
      }
      page_.text(kMargin + kLabel + kBar + 8, y_ + 11, 11, kInk, Anchor::kStart,
                 human_bytes(one->total_bytes()));
      y_ += kRow;
    }
    const double limit = kMargin + kLabel + scale * static_cast<double>(plan_.limit_bytes);
    page_.area(limit - 1, top, 2, y_ - top, "#c00000");
    page_.text(limit - 4, y_ + 10, 11, "#c00000", Anchor::kEnd,
               fmt::format("limit {}", human_bytes(plan_.limit_bytes)));
    y_ += kRow;
  }

  void draw_time() {
    const double step = plan_.estimate.time.step_s;
    page_.text(kMargin, y_, 12, kInk, Anchor::kStart,
               fmt::format("a step of {:.3f} s, MFU {:.1f} %", step, 100 * plan_.estimate.mfu));
    y_ += kRow;
    double x = kMargin + kLabel;
    const double top = y_ - 10;
    for (const TimePart& part : time_parts(plan_.estimate.time)) {
      const double width = step > 0 ? kBar * part.seconds / step : 0;
      page_.area(x, top, width, kThick, hex(part.color));
      x += width;
    }
    y_ += kRow;
    for (const TimePart& part : time_parts(plan_.estimate.time)) {
      page_.area(kMargin + kLabel, y_ - 9, 10, 10, hex(part.color));
      page_.text(kMargin + kLabel + 14, y_, 11, kInk, Anchor::kStart,
                 fmt::format("{}: {:.3f} s", part.name, part.seconds));
      y_ += kRow;
    }
  }

  const RunPlan& plan_;
  SvgPage page_;
  double y_ = 0;
};

}  // namespace

std::string run_plan_svg(const RunPlan& plan) { return RunPlanPicture(plan).str(); }

}  // namespace tessera
