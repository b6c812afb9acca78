#include "base/number_format.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera {
namespace {

constexpr NumberFormat kFormats[] = {
    {"f32", 8, 23},     {"bf16", 8, 7}, {"f16", 5, 10}, {"fp8_e4m3", 4, 3, /*has_infinity=*/false},
    {"fp8_e5m2", 5, 2},
};

uint32_t all_ones(int bits) { return (1U << bits) - 1; }
uint32_t sign_bit(const NumberFormat& format) { return 1U << (format.bits() - 1); }

uint32_t largest_bits(const NumberFormat& format) {
  const uint32_t mantissa = all_ones(format.mantissa_bits);
  const uint32_t exponents = all_ones(format.exponent_bits);
  if (format.has_infinity) return ((exponents - 1) << format.mantissa_bits) | mantissa;
  return (exponents << format.mantissa_bits) | (mantissa - 1);
}

uint32_t nan_bits(const NumberFormat& format) {
  const uint32_t exponents = all_ones(format.exponent_bits) << format.mantissa_bits;
  if (!format.has_infinity) return exponents | all_ones(format.mantissa_bits);
  return exponents | (1U << (format.mantissa_bits - 1));
}

// Rounded to nearest even; `value` is not negative and below 2^53.
uint64_t nearest_even(double value) {
  const double below = std::floor(value);
  const auto whole = static_cast<uint64_t>(below);
  const double rest = value - below;
  const bool up = rest > 0.5 || (rest == 0.5 && whole % 2 == 1);
  return whole + (up ? 1 : 0);
}

std::string digits_of(uint32_t bits, int count) {
  std::string text;
  for (int i = count - 1; i >= 0; --i) text += ((bits >> i) & 1U) != 0 ? '1' : '0';
  return text;
}

}  // namespace

double NumberFormat::largest() const { return decode(*this, largest_bits(*this)); }
double NumberFormat::smallest_normal() const { return std::ldexp(1, 1 - bias()); }
double NumberFormat::smallest_subnormal() const {
  return std::ldexp(1, 1 - bias() - mantissa_bits);
}

std::span<const NumberFormat> number_formats() { return kFormats; }

uint32_t encode(const NumberFormat& format, double value) {
  const uint32_t sign = std::signbit(value) ? sign_bit(format) : 0;
  if (std::isnan(value)) return sign | nan_bits(format);
  const uint32_t too_large = format.has_infinity ? largest_bits(format) + 1 : nan_bits(format);
  const double size = std::abs(value);
  if (size == 0) return sign;
  if (size >= 2 * format.largest()) return sign | too_large;
  int exponent = 0;
  std::frexp(size, &exponent);  // size is in [2^(exponent-1), 2^exponent)
  const int lowest = std::max(exponent - 1, 1 - format.bias());
  // In units of the last place. A mantissa that rounds up to the next power of two carries into the
  // exponent, as it should.
  const uint64_t units = nearest_even(std::ldexp(size, format.mantissa_bits - lowest));
  const auto above_lowest = static_cast<uint64_t>(lowest + format.bias() - 1);
  const uint64_t bits = units + (above_lowest << format.mantissa_bits);
  return bits > largest_bits(format) ? sign | too_large : sign | static_cast<uint32_t>(bits);
}

double decode(const NumberFormat& format, uint32_t bits) {
  const double sign = (bits & sign_bit(format)) != 0 ? -1 : 1;
  const uint32_t magnitude = bits & (sign_bit(format) - 1);
  if (magnitude > largest_bits(format)) {
    const bool infinite = format.has_infinity && magnitude == largest_bits(format) + 1;
    return infinite ? sign * std::numeric_limits<double>::infinity()
                    : std::numeric_limits<double>::quiet_NaN();
  }
  const auto exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  const uint32_t mantissa = magnitude & all_ones(format.mantissa_bits);
  const bool normal = exponent > 0;
  const uint32_t units = mantissa + (normal ? 1U << format.mantissa_bits : 0);
  const int last_place = std::max(exponent, 1) - format.bias() - format.mantissa_bits;
  return sign * std::ldexp(units, last_place);
}

double next_above(const NumberFormat& format, uint32_t bits) {
  const bool negative = (bits & sign_bit(format)) != 0;
  const uint32_t magnitude = bits & (sign_bit(format) - 1);
  if (magnitude == 0) return decode(format, 1);
  return decode(format, negative ? bits - 1 : bits + 1);
}

double next_below(const NumberFormat& format, uint32_t bits) {
  return -next_above(format, bits ^ sign_bit(format));
}

BitFields fields_of(const NumberFormat& format, uint32_t bits) {
  return {digits_of(bits >> (format.bits() - 1), 1),
          digits_of(bits >> format.mantissa_bits, format.exponent_bits),
          digits_of(bits, format.mantissa_bits)};
}

}  // namespace tessera
