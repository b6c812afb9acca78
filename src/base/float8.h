// Numbers of 8 bits, and the powers of two by which arrays are scaled into their range: what
// docs/numerics.md calls quantising, one number at a time. Pure; number_format.h has the same
// formats by definition, and tests compare.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

#include "base/rounding.h"

namespace tessera {

// 3 or 2 bits of mantissa. Both reach 1.75 * 2^top. E4M3 has no infinity.
enum class Float8 : uint8_t { kE4M3, kE5M2 };
constexpr std::string_view name_of(Float8 format) {
  return format == Float8::kE4M3 ? "e4m3" : "e5m2";
}

struct Float8Shape {
  int mantissa_bits, bias, top;
  uint32_t largest;  // code of 1.75 * 2^top
};
constexpr Float8Shape shape_of(Float8 format) {
  return format == Float8::kE4M3 ? Float8Shape{3, 7, 8, 0x7e} : Float8Shape{2, 15, 15, 0x7b};
}
inline constexpr uint8_t kFloat8NaN = 0x7f;

// Which elements of a matrix share a scale: tiles of so many rows and columns, 0 for all that a
// rank has.
struct Scaling {
  Float8 format = Float8::kE4M3;
  int64_t rows = 0, cols = 0;

  [[nodiscard]] constexpr int64_t row_tiles(int64_t count) const {
    return rows == 0 ? 1 : ceil_div(count, rows);
  }
  [[nodiscard]] constexpr int64_t col_tiles(int64_t count) const {
    return cols == 0 ? 1 : ceil_div(count, cols);
  }
  friend constexpr auto operator<=>(const Scaling&, const Scaling&) = default;
};

// The size of a value as bits of f32 that order as sizes do, rounded to f32; infinite for infinity
// and NaN, so that the largest of several does not depend on their order.
inline uint32_t size_bits(float value) {
  const uint32_t size = std::bit_cast<uint32_t>(value) & 0x7fffffffU;
  return std::min(size, 0x7f800000U);
}

// Scales are powers of two: the smallest e for which `amax` <= 1.75 * 2^(top + e), held within
// these bounds. What is scaled, and the sum of its products, then has the bits of what is not.
inline constexpr int kLeastScale = -96;
constexpr int most_scale(Float8 format) { return 127 - shape_of(format).top; }

inline int scale_exponent(Float8 format, float amax) {
  const uint32_t bits = std::bit_cast<uint32_t>(amax);
  const int exponent = static_cast<int>(bits >> 23) - 127 - shape_of(format).top;
  const int fitting = exponent + ((bits & 0x7fffffU) > 0x600000U ? 1 : 0);
  return std::clamp(fitting, kLeastScale, most_scale(format));
}
inline float power_of_two(int exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}
// What a code is multiplied by, and a value before it becomes a code. NaN for an infinite amax: all
// that shares a scale with an infinity or a NaN is NaN.
inline float scale_of(Float8 format, float amax) {
  if (amax == 0) return 1;
  if (!(amax < std::numeric_limits<float>::infinity())) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  return power_of_two(scale_exponent(format, amax));
}
inline float inverse_scale_of(Float8 format, float amax) {
  if (amax == 0) return 1;
  if (!(amax < std::numeric_limits<float>::infinity())) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  return power_of_two(-scale_exponent(format, amax));
}

// Rounds to nearest, to the even one of two that are equally near; what is too large becomes the
// largest. NaN stays NaN. Computes every case and chooses, so that compilers vectorise it.
template <Float8 kFormat>
inline uint8_t encode_float8(float value) {
  constexpr Float8Shape kShape = shape_of(kFormat);
  constexpr int kDrop = 23 - kShape.mantissa_bits;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 24) & 0x80U;
  const uint32_t size = bits & 0x7fffffffU;
  const uint32_t rounded = (size + ((1U << (kDrop - 1)) - 1U) + ((size >> kDrop) & 1U)) >> kDrop;
  const uint32_t normal =
      rounded - (static_cast<uint32_t>(127 - kShape.bias) << kShape.mantissa_bits);
  // Adding a number whose last place is the smallest subnormal aligns the bits, and rounds.
  constexpr uint32_t kAligning =
      static_cast<uint32_t>(23 + 1 - kShape.bias - kShape.mantissa_bits + 127) << 23;
  const float aligned = std::bit_cast<float>(size) + std::bit_cast<float>(kAligning);
  const uint32_t subnormal = std::bit_cast<uint32_t>(aligned) - kAligning;
  constexpr uint32_t kSmallestNormal = static_cast<uint32_t>(128 - kShape.bias) << 23;
  uint32_t code = size >= kSmallestNormal ? normal : subnormal;
  // Compared before the shift above could have wrapped.
  constexpr uint32_t kTooLarge = static_cast<uint32_t>(kShape.top + 127) << 23 | 0x600000U;
  code = size >= kTooLarge ? kShape.largest : code;
  code = size > 0x7f800000U ? uint32_t{kFloat8NaN} : code;
  return static_cast<uint8_t>(sign | code);
}

// f64 is rounded once: what f32 cannot hold becomes the odd one of its neighbours, so that the
// second rounding sees on which side it was.
template <Float8 kFormat>
inline uint8_t encode_float8(double value) {
  float near = static_cast<float>(value);
  const double back = near;
  if (back != value && std::isfinite(near)) {
    uint32_t bits = std::bit_cast<uint32_t>(near);
    if (std::abs(back) > std::abs(value)) --bits;
    near = std::bit_cast<float>(bits | 1U);
  }
  return encode_float8<kFormat>(near);
}

// The numbers of all codes; exact in f32, and in bf16.
using Float8Values = std::array<float, 256>;
constexpr Float8Values float8_values(Float8 format) {
  const Float8Shape shape = shape_of(format);
  Float8Values values{};
  for (uint32_t code = 0; code < 256; ++code) {
    const uint32_t size = code & 0x7fU;
    const uint32_t mantissa = size & ((1U << shape.mantissa_bits) - 1U);
    const int exponent = static_cast<int>(size >> shape.mantissa_bits);
    float value = static_cast<float>(mantissa + (exponent > 0 ? 1U << shape.mantissa_bits : 0U));
    for (int i = std::max(exponent, 1) - shape.bias - shape.mantissa_bits; i < 0; ++i) value /= 2;
    for (int i = std::max(exponent, 1) - shape.bias - shape.mantissa_bits; i > 0; --i) value *= 2;
    if (size > shape.largest) {
      const bool infinite = format == Float8::kE5M2 && mantissa == 0;
      value = infinite ? std::numeric_limits<float>::infinity()
                       : std::numeric_limits<float>::quiet_NaN();
    }
    values[code] = (code & 0x80U) != 0 ? -value : value;
  }
  return values;
}
inline constexpr Float8Values kE4M3Values = float8_values(Float8::kE4M3);
inline constexpr Float8Values kE5M2Values = float8_values(Float8::kE5M2);
constexpr const Float8Values& values_of(Float8 format) {
  return format == Float8::kE4M3 ? kE4M3Values : kE5M2Values;
}

}  // namespace tessera
