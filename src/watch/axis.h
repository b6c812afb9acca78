// Round numbers along an axis, and numbers as short as an axis wants them.
#pragma once

#include <string>
#include <vector>

namespace tessera {

struct AxisRange {
  double low = 0, high = 1;
  bool logarithmic = false;

  // Where `value` lies between low (0) and high (1).
  [[nodiscard]] double place(double value) const;
};

// The range of all that was given to include(), made wider where it would have no extent.
class RangeOf {
 public:
  void include(double value);
  [[nodiscard]] AxisRange range(bool logarithmic) const;

 private:
  bool any_ = false;
  double low_ = 0, high_ = 0;
};

// Multiples of 1, 2 or 5 times a power of ten inside the range, ascending: about `wanted` of them.
// On a logarithmic axis powers of ten, where there are two inside.
std::vector<double> ticks(const AxisRange& range, int wanted);

// "0.0003", "3.42", "1.2k", "30M".
std::string axis_text(double value);

}  // namespace tessera
