#include "draw/time_bars.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace tessera {
namespace {

constexpr double kLeastOutlined = 4;  // pixels: an outline of less than a fifth
constexpr double kLeastAlone = 1;     // what is narrower joins its neighbour
constexpr double kLeastTold = 2;
constexpr double kOverlap = 0.5;

double label_pixels(const TimeBar& bar) {
  return kLetterPixels * static_cast<double>(bar.label.size()) + 2;
}

// Numbers on a few bars of many say less than none.
bool are_labels_shown(const std::vector<TimeBar>& bars) {
  size_t labels = 0, fit = 0;
  for (const TimeBar& bar : bars) {
    if (bar.label.empty()) continue;
    ++labels;
    if (bar.width >= label_pixels(bar)) ++fit;
  }
  return 3 * fit >= labels;
}

void draw_bar(SvgPage& page, const TimeBar& bar, double top, double height) {
  if (bar.width >= kLeastOutlined) {
    page.box(bar.x, top, bar.width, height, bar.fill);
  } else {
    page.area(bar.x, top, bar.width, height, bar.fill);
  }
}

// One slice as boxes of the heights of its shares. Every one reaches a little behind the one below
// it, so that no paper shines through between them.
void draw_slice(SvgPage& page, const std::vector<double>& shares,
                const std::vector<std::string>& fills, const BarLane& at) {
  double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (size_t f = fills.size(); f-- > 0;) {
    if (shares[f] > 0) {
      const double up_to = at.height * std::min(sum, 1.0);
      const double height = std::min(at.height * shares[f] + kOverlap, up_to);
      page.area(at.left, at.top + at.height - up_to, at.width, height, fills[f]);
    }
    sum -= shares[f];
  }
}

}  // namespace

bool are_too_narrow(const std::vector<double>& widths) {
  double narrow = 0, all = 0;
  for (const double width : widths) {
    all += width;
    if (width < kLeastTold) narrow += width;
  }
  return 4 * narrow > all;
}

void draw_bars(SvgPage& page, const std::vector<TimeBar>& bars, double top, double height) {
  for (size_t i = 0; i < bars.size();) {
    TimeBar bar = bars[i++];
    const bool joins = bar.width < kLeastAlone;
    while (joins && i < bars.size() && bars[i].fill == bar.fill && bars[i].width < kLeastAlone &&
           bars[i].x - (bar.x + bar.width) < kLeastAlone) {
      bar.width = bars[i].x + bars[i].width - bar.x;
      ++i;
    }
    if (bar.width > 0) draw_bar(page, bar, top, height);
  }
}

void draw_labels(SvgPage& page, const std::vector<TimeBar>& bars, double top, double height) {
  if (!are_labels_shown(bars)) return;
  for (const TimeBar& bar : bars) {
    if (bar.label.empty() || bar.width < label_pixels(bar)) continue;
    page.text(bar.x + bar.width / 2, top + height / 2 + 4, 11, bar.ink, Anchor::kMiddle, bar.label);
  }
}

double slice_for(const std::vector<double>& widths) {
  constexpr double kBarsOfSlice = 12, kLeast = 8, kMost = 16;
  double sum = 0, squares = 0;
  for (const double width : widths) {
    sum += width;
    squares += width * width;
  }
  // The bar that most of the time is in.
  const double usual = sum > 0 ? squares / sum : 0;
  return std::clamp(std::round(kBarsOfSlice * usual), kLeast, kMost);
}

void draw_shares(SvgPage& page, const std::vector<TimeBar>& bars,
                 const std::vector<std::string>& fills, const BarLane& lane, double slice) {
  const auto slices = static_cast<size_t>(std::ceil(lane.width / slice));
  std::vector<std::vector<double>> shares(slices, std::vector<double>(fills.size()));
  for (const TimeBar& bar : bars) {
    const auto fill =
        static_cast<size_t>(std::find(fills.begin(), fills.end(), bar.fill) - fills.begin());
    if (fill == fills.size()) continue;
    const double begin = bar.x - lane.left, end = begin + bar.width;
    for (auto s = static_cast<size_t>(std::max(begin, 0.0) / slice); s < slices; ++s) {
      const double from = static_cast<double>(s) * slice;
      if (from >= end) break;
      const double width = std::min(slice, lane.width - from);
      const double inside = std::min(end, from + width) - std::max(begin, from);
      shares[s][fill] += std::max(inside, 0.0) / width;
    }
  }
  for (auto& of_slice : shares) {
    // Hundredths: more would only make the file longer, and equal neighbours differ.
    for (double& share : of_slice) share = std::round(share * 100) / 100;
  }
  for (size_t first = 0, end = 0; first < slices; first = end) {
    while (end < slices && shares[end] == shares[first]) ++end;
    const double x = static_cast<double>(first) * slice;
    const double right = std::min(static_cast<double>(end) * slice, lane.width);
    // Slices lie a little below the next one: no paper shines through between them.
    const double width = std::min(right + kOverlap, lane.width) - x;
    draw_slice(page, shares[first], fills, {lane.left + x, lane.top, width, lane.height});
  }
}

std::vector<double> round_ticks(double span) {
  constexpr double kMost = 8;
  if (!(span > 0)) return {0};
  double step = 1;  // the power of ten below a part; not by logarithms, which libraries round apart
  while (step > span / kMost) step /= 10;
  while (step * 10 <= span / kMost) step *= 10;
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    if (span / (step * factor) > kMost) continue;
    step *= factor;
    break;
  }
  std::vector<double> ticks;
  for (int i = 0; i * step <= span * (1 + 1e-9); ++i) ticks.push_back(i * step);
  return ticks;
}

std::string tick_text(double seconds, double span) {
  struct Unit {
    double seconds;
    std::string_view name;
  };
  constexpr std::array<Unit, 4> kUnits = {{{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}}};
  if (seconds == 0) return "0";
  const Unit* last = kUnits.data() + kUnits.size() - 1;
  const Unit* unit =
      std::find_if(kUnits.data(), last, [&](const Unit& one) { return span >= one.seconds; });
  // Multiples of a round step have few digits.
  return fmt::format("{:.6g} {}", seconds / unit->seconds, unit->name);
}

}  // namespace tessera
