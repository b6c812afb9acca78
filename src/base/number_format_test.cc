#include "base/number_format.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>

#include "base/dtype.h"

namespace tessera {
namespace {

const NumberFormat& format_named(const std::string& name) {
  for (const NumberFormat& format : number_formats()) {
    if (format.name == name) return format;
  }
  throw std::runtime_error(name);
}

TEST(NumberFormatTest, LimitsAreThoseOfTheStandards) {
  const auto limits = [](const std::string& name) {
    const NumberFormat& format = format_named(name);
    return std::vector<double>{format.largest(), format.smallest_normal(),
                               format.smallest_subnormal()};
  };
  EXPECT_EQ(limits("f32"), (std::vector{0x1.fffffep127, 0x1p-126, 0x1p-149}));
  EXPECT_EQ(limits("bf16"), (std::vector{0x1.fep127, 0x1p-126, 0x1p-133}));
  EXPECT_EQ(limits("f16"), (std::vector{65504.0, 0x1p-14, 0x1p-24}));
  EXPECT_EQ(limits("fp8_e4m3"), (std::vector{448.0, 0x1p-6, 0x1p-9}));
  EXPECT_EQ(limits("fp8_e5m2"), (std::vector{57344.0, 0x1p-14, 0x1p-16}));
}

TEST(NumberFormatTest, EveryShortNumberComesBack) {
  for (const NumberFormat& format : number_formats()) {
    if (format.bits() > 16) continue;
    for (uint32_t bits = 0; bits < 1U << format.bits(); ++bits) {
      const double value = decode(format, bits);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(decode(format, encode(format, value))));
      } else {
        EXPECT_EQ(encode(format, value), bits) << format.name;
      }
    }
  }
}

// The same bits as the types that arrays are stored in.
TEST(NumberFormatTest, RoundsAsTheStorageTypesDo) {
  uint32_t random = 1;
  for (int i = 0; i < 200'000; ++i) {
    random = random * 1664525U + 1013904223U;
    const auto value = std::bit_cast<float>(random);
    if (std::isnan(value)) continue;
    EXPECT_EQ(encode(format_named("f32"), value), random);
    EXPECT_EQ(encode(format_named("bf16"), value), BFloat16(value).bits) << value;
    EXPECT_EQ(encode(format_named("f16"), value), Float16(value).bits) << value;
  }
}

TEST(NumberFormatTest, TooLargeIsInfiniteOrNoNumber) {
  EXPECT_EQ(decode(format_named("f16"), encode(format_named("f16"), 65519)), 65504);
  EXPECT_TRUE(std::isinf(decode(format_named("f16"), encode(format_named("f16"), 65520))));
  EXPECT_EQ(decode(format_named("fp8_e4m3"), encode(format_named("fp8_e4m3"), 464)), 448);
  EXPECT_TRUE(std::isnan(decode(format_named("fp8_e4m3"), encode(format_named("fp8_e4m3"), 465))));
  EXPECT_TRUE(std::isinf(decode(format_named("fp8_e5m2"), encode(format_named("fp8_e5m2"), -1e9))));
}

TEST(NumberFormatTest, NeighboursLieOneStepAway) {
  const NumberFormat& bf16 = format_named("bf16");
  const uint32_t one = encode(bf16, 1);
  EXPECT_EQ(next_above(bf16, one), 1 + 0x1p-7);
  EXPECT_EQ(next_below(bf16, one), 1 - 0x1p-8);
  EXPECT_EQ(next_above(bf16, encode(bf16, -1)), -1 + 0x1p-8);
  EXPECT_EQ(next_below(bf16, encode(bf16, 0)), -0x1p-133);
  EXPECT_TRUE(std::isinf(next_above(bf16, encode(bf16, bf16.largest()))));
}

TEST(NumberFormatTest, FieldsAreTheDigits) {
  const NumberFormat& f32 = format_named("f32");
  const BitFields tenth = fields_of(f32, encode(f32, 0.1));
  EXPECT_EQ(tenth.sign, "0");
  EXPECT_EQ(tenth.exponent, "01111011");
  EXPECT_EQ(tenth.mantissa, "10011001100110011001101");
}

}  // namespace
}  // namespace tessera
