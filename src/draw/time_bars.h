// The bars of one row of a timeline, drawn so that they are still seen where there are thousands.
#pragma once

#include <string>
#include <vector>

#include "draw/svg.h"

namespace tessera {

struct TimeBar {
  double x = 0, width = 0;  // pixels
  std::string fill;
  std::string label = "";  // shown where it fits
  std::string_view ink = kWhite;
};

// Where a row lies.
struct BarLane {
  double left = 0, top = 0, width = 0, height = 0;
};

// More than a quarter of the time is in bars that are too narrow to be told from their neighbours.
bool are_too_narrow(const std::vector<double>& widths);

// Every bar: with an outline from 4 pixels on; equal neighbours below a pixel are one.
void draw_bars(SvgPage& page, const std::vector<TimeBar>& bars, double top, double height);

// The labels of the bars, above whatever else was drawn on them: those that fit, where a third of
// them do.
void draw_labels(SvgPage& page, const std::vector<TimeBar>& bars, double top, double height);

// The shares of the fills in slices of time, from the bottom up in the order of `fills`; what is
// left blank is nobody's. Bars do not overlap. `slice` is its width in pixels.
void draw_shares(SvgPage& page, const std::vector<TimeBar>& bars,
                 const std::vector<std::string>& fills, const BarLane& lane, double slice);
double slice_for(const std::vector<double>& widths);

// Round times (1, 2 or 5 times a power of ten) from 0 to `span`, at most eight of them.
std::vector<double> round_ticks(double span);
// "20 ms", in a unit that suits the longest, `span`.
std::string tick_text(double seconds, double span);

}  // namespace tessera
