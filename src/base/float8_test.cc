#include "base/float8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/number_format.h"

namespace tessera {
namespace {

const NumberFormat& definition(Float8 format) {
  for (const NumberFormat& one : number_formats()) {
    if (one.name == (format == Float8::kE4M3 ? "fp8_e4m3" : "fp8_e5m2")) return one;
  }
  throw std::logic_error("no such format");
}

// The definition does not saturate: it gives NaN or infinity for what is too large.
uint8_t expected(Float8 format, double value) {
  const NumberFormat& by_definition = definition(format);
  const double largest = by_definition.largest();
  if (std::isnan(value)) return static_cast<uint8_t>((std::signbit(value) ? 0x80 : 0) | 0x7f);
  return static_cast<uint8_t>(encode(by_definition, std::clamp(value, -largest, largest)));
}

template <Float8 kFormat>
void expect_encoded(double value) {
  ASSERT_EQ(encode_float8<kFormat>(value), expected(kFormat, value)) << value;
  const auto single = static_cast<float>(value);
  ASSERT_EQ(encode_float8<kFormat>(single), expected(kFormat, single)) << single;
}

template <Float8 kFormat>
void check_rounding() {
  const Float8Values& values = values_of(kFormat);
  for (uint32_t code = 0; code < 256; ++code) {
    const double exact = decode(definition(kFormat), code);
    if (std::isnan(exact)) {
      EXPECT_TRUE(std::isnan(values[code])) << code;
      continue;
    }
    EXPECT_EQ(values[code], exact) << code;
    if (std::isfinite(exact)) expect_encoded<kFormat>(exact);
    const double next = decode(definition(kFormat), code + 1);
    if ((code & 0x7fU) == 0x7fU || !std::isfinite(next)) continue;
    // On both sides of the middle between two neighbours, as near as f64 and f32 can be, and on it.
    const double middle = (exact + next) / 2;
    for (const double towards : {exact, next}) {
      expect_encoded<kFormat>(std::nextafter(middle, towards));
      expect_encoded<kFormat>(
          std::nextafter(static_cast<float>(middle), static_cast<float>(towards)));
    }
    expect_encoded<kFormat>(middle);
  }
  std::mt19937_64 rng(3);
  std::normal_distribution<double> normal;
  std::uniform_int_distribution<int> exponent(-160, 140);
  for (int i = 0; i < 20000; ++i) {
    expect_encoded<kFormat>(
        std::ldexp(normal(rng), i % 2 == 0 ? exponent(rng) : exponent(rng) / 12));
  }
  for (const double special : {0.0, -0.0, 1e-320, 449.0, 464.0, 1e5, -1e300, HUGE_VAL, -HUGE_VAL}) {
    expect_encoded<kFormat>(special);
  }
  EXPECT_EQ(encode_float8<kFormat>(std::nanf("")) & 0x7f, 0x7f);
}

TEST(Float8, RoundsAsItsDefinitionAndSaturates) {
  check_rounding<Float8::kE4M3>();
  check_rounding<Float8::kE5M2>();
}

TEST(Float8, ScaleIsTheSmallestPowerOfTwoThatClipsNothing) {
  for (const Float8 format : {Float8::kE4M3, Float8::kE5M2}) {
    const double largest = definition(format).largest();
    for (int e = kLeastScale; e <= most_scale(format); ++e) {
      const auto edge = static_cast<float>(std::ldexp(largest, e));
      EXPECT_EQ(scale_of(format, edge), std::ldexp(1.0, e));
      EXPECT_EQ(inverse_scale_of(format, edge), std::ldexp(1.0, -e));
      if (e == most_scale(format)) continue;
      EXPECT_EQ(scale_of(format, std::nextafter(edge, HUGE_VALF)), std::ldexp(1.0, e + 1));
    }
  }
}

TEST(Float8, ScaleOfZeroOfTinyAndOfHugeValues) {
  for (const Float8 format : {Float8::kE4M3, Float8::kE5M2}) {
    EXPECT_EQ(scale_of(format, 0), 1);
    EXPECT_EQ(scale_of(format, std::numeric_limits<float>::denorm_min()),
              std::ldexp(1.0, kLeastScale));
    EXPECT_EQ(scale_of(format, std::numeric_limits<float>::max()),
              std::ldexp(1.0, most_scale(format)));
    EXPECT_TRUE(std::isnan(scale_of(format, HUGE_VALF)));
    EXPECT_TRUE(std::isnan(inverse_scale_of(format, HUGE_VALF)));
  }
}

TEST(Float8, SizesOrderAsBitsAndInfinityStandsForNaN) {
  EXPECT_LT(size_bits(-1), size_bits(1.5));
  EXPECT_EQ(size_bits(-0.0F), size_bits(0.0F));
  EXPECT_EQ(size_bits(std::nanf("")), size_bits(-HUGE_VALF));
}

}  // namespace
}  // namespace tessera
