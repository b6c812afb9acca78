// Curves of runs as a picture: one colour per run, a legend, axes with round numbers.
#pragma once

#include <string>
#include <vector>

#include "watch/chart_text.h"

namespace tessera {

struct CurvesSvgOptions {
  std::string title;   // above the picture
  std::string y_name;  // "loss"
  std::string x_name;  // "step"
  bool logarithmic = false;
};
// The names of the series are the legend.
std::string curves_svg(const std::vector<ChartSeries>& series, const CurvesSvgOptions& options);

}  // namespace tessera
