#include "base/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tessera {
namespace {

// The value of a half by definition.
double value_of_half(uint32_t bits) {
  const int exponent = static_cast<int>((bits >> 10) & 0x1fU);
  const double fraction = (bits & 0x3ffU) / 1024.0;
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  return sign *
         (exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15));
}

TEST(Float16Test, EveryHalfHasItsValueAndComesBack) {
  for (uint32_t bits = 0; bits < 0x10000U; ++bits) {
    Float16 half;
    half.bits = static_cast<uint16_t>(bits);
    const auto value = static_cast<float>(half);
    const double want = value_of_half(bits);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      EXPECT_TRUE(std::isnan(static_cast<float>(Float16(value)))) << bits;
    } else {
      EXPECT_EQ(static_cast<double>(value), want) << bits;
      EXPECT_EQ(Float16(value).bits, bits);
    }
  }
}

// Between two neighbours: down below the middle, up above it, to the even one in the middle.
TEST(Float16Test, RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7bffU; ++bits) {
    const double low = value_of_half(bits), high = value_of_half(bits + 1);
    const auto middle = static_cast<float>((low + high) / 2);
    EXPECT_EQ(Float16(middle).bits, bits % 2 == 0 ? bits : bits + 1);
    EXPECT_EQ(Float16(std::nextafter(middle, 0.0F)).bits, bits);
    EXPECT_EQ(Float16(std::nextafter(middle, 1e9F)).bits, bits + 1);
    EXPECT_EQ(Float16(-middle).bits, (bits % 2 == 0 ? bits : bits + 1) | 0x8000U);
  }
}

TEST(Float16Test, BecomesInfiniteFrom65520On) {
  EXPECT_EQ(static_cast<float>(Float16(65519.9F)), 65504.0F);
  EXPECT_EQ(static_cast<float>(Float16(65520.0F)), std::numeric_limits<float>::infinity());
  EXPECT_EQ(static_cast<float>(Float16(-1e30F)), -std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace tessera
