#include "watch/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tessera {
namespace {

constexpr int kMostTicks = 40;

std::vector<double> powers_of_ten(const AxisRange& range) {
  std::vector<double> list;
  const double first = std::ceil(std::log10(range.low) - 1e-9);
  const double last = std::floor(std::log10(range.high) + 1e-9);
  if (last - first > kMostTicks) return list;
  for (double power = first; power <= last; ++power) list.push_back(std::pow(10, power));
  return list;
}

}  // namespace

double AxisRange::place(double value) const {
  if (!logarithmic) return (value - low) / (high - low);
  return (std::log(value) - std::log(low)) / (std::log(high) - std::log(low));
}

void RangeOf::include(double value) {
  low_ = any_ ? std::min(low_, value) : value;
  high_ = any_ ? std::max(high_, value) : value;
  any_ = true;
}

AxisRange RangeOf::range(bool logarithmic) const {
  if (!any_) return {};
  AxisRange range{low_, high_, logarithmic};
  const double size = std::max(std::abs(low_), std::abs(high_));
  if (high_ - low_ > 1e-9 * size) return range;
  const double margin = size > 0 ? 0.05 * size : 1;
  range.low -= margin;
  range.high += margin;
  return range;
}

std::vector<double> ticks(const AxisRange& range, int wanted) {
  if (range.logarithmic) {
    std::vector<double> list = powers_of_ten(range);
    if (list.size() >= 2) return list;
  }
  const double rough = (range.high - range.low) / std::max(1, wanted);
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = power;
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    step = factor * power;
    if (step >= rough) break;
  }
  std::vector<double> list;
  const double slack = 1e-9 * step;
  double at = std::ceil((range.low - slack) / step);
  for (; at * step <= range.high + slack && list.size() < kMostTicks; ++at) {
    list.push_back(at == 0 ? 0 : at * step);
  }
  return list;
}

std::string axis_text(double value) {
  const double size = std::abs(value);
  if (size >= 999.5 && size < 1e15) {
    double shown = value;
    const char* unit = "";
    for (const char* larger : {"k", "M", "G", "T"}) {
      if (std::abs(shown) < 999.5) break;
      shown /= 1000;
      unit = larger;
    }
    return fmt::format("{:.4g}{}", shown, unit);
  }
  return fmt::format("{:.4g}", value);
}

}  // namespace tessera
