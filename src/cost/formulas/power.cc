#include "cost/formulas/power.h"

#include <cmath>
#include <cstdint>

namespace tessera {
namespace {

constexpr double kLn2 = 0.6931471805599453;
constexpr double kSqrtHalf = 0.7071067811865476;

// e^x for |x| <= ln(2) / 2 or a little more, by its series.
double small_exp(double x) {
  double term = 1, sum = 1;
  for (int i = 1; i <= 18; ++i) {
    term = term * x / i;
    sum += term;
  }
  return sum;
}

double natural_exp(double x) {
  const auto doublings = static_cast<int>(x / kLn2 + (x < 0 ? -0.5 : 0.5));
  return std::ldexp(small_exp(x - doublings * kLn2), doublings);
}

double whole_power(double base, int64_t exponent) {
  double result = 1, square = exponent < 0 ? 1 / base : base;
  for (int64_t left = exponent < 0 ? -exponent : exponent; left > 0; left /= 2) {
    if (left % 2 == 1) result *= square;
    square *= square;
  }
  return result;
}

}  // namespace

double natural_log(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);
  if (mantissa < kSqrtHalf) {
    mantissa *= 2;
    --exponent;
  }
  // ln(m) = 2 atanh(t), |t| < 0.172.
  const double t = (mantissa - 1) / (mantissa + 1);
  double odd = t, sum = 0;
  for (int i = 1; i <= 23; i += 2) {
    sum += odd / i;
    odd *= t * t;
  }
  return exponent * kLn2 + 2 * sum;
}

double power(double base, double exponent) {
  const auto whole = static_cast<int64_t>(exponent);
  const double rest = exponent - static_cast<double>(whole);
  const double result = whole_power(base, whole);
  return rest == 0 ? result : result * natural_exp(rest * natural_log(base));
}

}  // namespace tessera
