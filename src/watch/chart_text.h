// Curves as lines of text, for a terminal.
#pragma once

#include <string>
#include <vector>

#include "watch/axis.h"
#include "watch/curve.h"

namespace tessera {

struct ChartSeries {
  std::string name;
  std::vector<CurvePoint> points;
};

struct ChartOptions {
  std::string title;   // of the vertical axis: "loss"
  std::string x_name;  // "step"
  int columns = 80;    // of the whole, axis included
  int rows = 16;       // of the curves alone
  bool utf8 = true;    // else only ASCII
  bool colored = false;
  bool logarithmic = false;  // the vertical axis; values that are not above 0 are left out
};

// How the curve at this place in the list is marked: a letter where several curves have no colours
// to tell them by, an escape sequence around `text` where they have.
std::string marked(const ChartOptions& options, size_t series, size_t of, const std::string& text);

// Braille where one character can only belong to one curve: a single curve, or with colours. Else
// one character per cell: a letter for each curve, '*' for a single one. Lines end with '\n' and
// are never wider than `columns`.
std::string chart_text(const std::vector<ChartSeries>& series, const ChartOptions& options);

}  // namespace tessera
