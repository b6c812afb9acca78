// e^x with the same bits on every platform: additions and products alone, in one order. For what is
// shown rather than trained; to about 15 digits.
#pragma once

#include <cmath>

namespace tessera {

inline double steady_exp(double x) {
  constexpr double kMost = 709, kLn2High = 0x1.62e42fee00000p-1, kLn2Low = 0x1.a39ef35793c76p-33;
  if (x > kMost) return HUGE_VAL;
  if (x < -kMost) return 0;
  const double halves = std::floor(x / (kLn2High + kLn2Low) + 0.5);
  const double rest = (x - halves * kLn2High) - halves * kLn2Low;  // at most 0.35
  constexpr int kTerms = 14;
  double sum = 1;
  for (int n = kTerms; n > 0; --n) sum = 1 + sum * rest / n;
  return std::ldexp(sum, static_cast<int>(halves));
}

}  // namespace tessera
