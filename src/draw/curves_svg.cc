#include "draw/curves_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "draw/svg.h"

namespace tessera {
namespace {

constexpr double kWidth = 900, kPlotHeight = 360, kLeft = 70, kRight = 24, kTop = 60, kBottom = 46;
constexpr double kLegendRow = 18;
constexpr std::array<Color, 8> kColors = {
    color_of(palette::kParameters), color_of(palette::kActivationsEdge),
    color_of(palette::kGradients),  color_of(palette::kCommunication),
    color_of(palette::kOptimizer),  color_of(palette::kInk3),
    color_of(palette::kWeightGrad), color_of(palette::kWorkspace)};

std::string color_of(size_t series) { return hex(kColors[series % kColors.size()]); }

class Picture {
 public:
  Picture(const std::vector<ChartSeries>& series, const CurvesSvgOptions& options)
      : series_(series), options_(options) {
    RangeOf x, y;
    for (const ChartSeries& one : series) {
      for (const CurvePoint& point : one.points) {
        if (!shown(point)) continue;
        x.include(point.x);
        y.include(point.mean);
      }
    }
    x_ = x.range(false);
    y_ = y.range(options.logarithmic);
  }

  std::string str() {
    page_.text(kLeft, 24, 15, kTitleInk, Anchor::kStart, options_.title);
    page_.text(kLeft, 46, 12, kInk, Anchor::kStart,
               options_.y_name + (options_.logarithmic ? " (logarithmic)" : ""));
    draw_axes();
    for (size_t s = 0; s < series_.size(); ++s) draw_curve(s);
    const double legend_top = kTop + kPlotHeight + kBottom;
    for (size_t s = 0; s < series_.size(); ++s) {
      const double y = legend_top + kLegendRow * static_cast<double>(s);
      page_.area(kLeft, y - 4, 22, 3, color_of(s));
      page_.text(kLeft + 30, y + 2, 12, kInk, Anchor::kStart, series_[s].name);
    }
    return page_.str(kWidth, legend_top + kLegendRow * static_cast<double>(series_.size()) + 8,
                     options_.title, options_.y_name + " over " + options_.x_name);
  }

 private:
  [[nodiscard]] bool shown(const CurvePoint& point) const {
    return !options_.logarithmic || point.mean > 0;
  }
  [[nodiscard]] double across(double x) const {
    return kLeft + std::clamp(x_.place(x), 0.0, 1.0) * (kWidth - kLeft - kRight);
  }
  [[nodiscard]] double down(double y) const {
    return kTop + (1 - std::clamp(y_.place(y), 0.0, 1.0)) * kPlotHeight;
  }

  void draw_axes() {
    for (const double value : ticks(y_, 6)) {
      page_.area(kLeft, down(value), kWidth - kLeft - kRight, 1, kBlank);
      page_.text(kLeft - 8, down(value) + 4, 11, kFaintInk, Anchor::kEnd, axis_text(value));
    }
    const double bottom = kTop + kPlotHeight;
    page_.area(kLeft, bottom, kWidth - kLeft - kRight, 1, kFaintInk);
    for (const double value : ticks(x_, 8)) {
      page_.area(across(value), bottom, 1, 4, kFaintInk);
      page_.text(across(value), bottom + 18, 11, kFaintInk, Anchor::kMiddle, axis_text(value));
    }
    page_.text(kWidth - kRight, bottom + 34, 12, kInk, Anchor::kEnd, options_.x_name);
  }

  void draw_curve(size_t series) {
    std::vector<SvgPoint> points;
    for (const CurvePoint& point : series_[series].points) {
      if (shown(point)) points.push_back({across(point.x), down(point.mean)});
    }
    page_.curve(points, color_of(series));
  }

  const std::vector<ChartSeries>& series_;
  const CurvesSvgOptions& options_;
  AxisRange x_, y_;
  SvgPage page_;
};

}  // namespace

std::string curves_svg(const std::vector<ChartSeries>& series, const CurvesSvgOptions& options) {
  return Picture(series, options).str();
}

}  // namespace tessera
