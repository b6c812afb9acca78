#include "serve/sample/row_math.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tessera::serve {
namespace {

constexpr double kLeastExponent = -690;  // e^x is still normal

// Additions and products alone, so that the compiler can do several at once.
inline double exp_at_most_one(double x) {
  constexpr double kLog2E = 0x1.71547652b82fep+0;
  constexpr double kLn2High = 0x1.62e42fee00000p-1, kLn2Low = 0x1.a39ef35793c76p-33;
  constexpr double kToInteger = 0x1.8p52;  // a sum with it has the integer in its last bits
  const double bounded = std::max(x, kLeastExponent);
  const double shifted = bounded * kLog2E + kToInteger;
  const double halves = shifted - kToInteger;
  const double r = (bounded - halves * kLn2High) - halves * kLn2Low;  // at most 0.35
  double sum = 1.0 / 6227020800.0;                                    // 1 / 13!
  sum = sum * r + 1.0 / 479001600.0;
  sum = sum * r + 1.0 / 39916800.0;
  sum = sum * r + 1.0 / 3628800.0;
  sum = sum * r + 1.0 / 362880.0;
  sum = sum * r + 1.0 / 40320.0;
  sum = sum * r + 1.0 / 5040.0;
  sum = sum * r + 1.0 / 720.0;
  sum = sum * r + 1.0 / 120.0;
  sum = sum * r + 1.0 / 24.0;
  sum = sum * r + 1.0 / 6.0;
  sum = sum * r + 0.5;
  sum = sum * r + 1.0;
  sum = sum * r + 1.0;
  constexpr uint64_t kBias = 1023;
  const uint64_t exponent = std::bit_cast<uint64_t>(shifted) + kBias;
  const double power = std::bit_cast<double>(exponent << 52);
  return x < kLeastExponent ? 0.0 : sum * power;
}

template <typename T>
bool copy_row(std::span<const T> from, std::span<double> to) {
  double zeros = 0;  // x * 0 is NaN where x is NaN or Inf
  const size_t count = from.size();
  const T* source = from.data();
  double* target = to.data();
  constexpr size_t kLanes = 8;
  double lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const auto value = static_cast<double>(source[i + lane]);
      target[i + lane] = value;
      lanes[lane] += value * 0;
    }
  }
  for (; i < count; ++i) {
    target[i] = static_cast<double>(source[i]);
    zeros += target[i] * 0;
  }
  for (const double lane : lanes) zeros += lane;
  return zeros == 0;
}

}  // namespace

bool copy_finite(std::span<const double> from, std::span<double> to) { return copy_row(from, to); }
bool copy_finite(std::span<const float> from, std::span<double> to) { return copy_row(from, to); }

double greatest(std::span<const double> values) {
  constexpr size_t kLanes = 8;
  double lanes[kLanes];
  std::fill(lanes, lanes + kLanes, -HUGE_VAL);
  const size_t count = values.size();
  const double* value = values.data();
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = value[i + lane] > lanes[lane] ? value[i + lane] : lanes[lane];
    }
  }
  for (; i < count; ++i) lanes[0] = std::max(lanes[0], value[i]);
  return *std::max_element(lanes, lanes + kLanes);
}

void shift_and_divide(std::span<double> values, double greatest, double temperature) {
  for (double& value : values) value = (value - greatest) / temperature;
}

void exp_of_row(std::span<const double> values, std::span<double> result) {
  const size_t count = values.size();
  const double* value = values.data();
  double* target = result.data();
  for (size_t i = 0; i < count; ++i) target[i] = exp_at_most_one(value[i]);
}

double sum_of_exp(std::span<const double> values, double greatest) {
  constexpr size_t kLanes = 4;
  double lanes[kLanes] = {};
  const size_t count = values.size();
  const double* value = values.data();
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += exp_at_most_one(value[i + lane] - greatest);
    }
  }
  for (; i < count; ++i) lanes[0] += exp_at_most_one(value[i] - greatest);
  return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

}  // namespace tessera::serve
