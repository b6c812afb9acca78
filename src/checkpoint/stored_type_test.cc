#include "checkpoint/stored_type.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"

namespace tessera {
namespace {

// The definition of binary16, in double.
double half_reference(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31) {
    return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

// The definition of bfloat16, in double.
double bf16_reference(uint16_t bits) {
  const int exponent = (bits >> 7) & 255;
  const int fraction = bits & 127;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 255) {
    return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, -133);
  return sign * std::ldexp(128 + fraction, exponent - 134);
}

void expect_same(double got, double want, uint32_t bits) {
  if (std::isnan(want)) {
    EXPECT_TRUE(std::isnan(got)) << bits;
  } else {
    EXPECT_EQ(std::bit_cast<uint64_t>(got), std::bit_cast<uint64_t>(want)) << bits;
  }
}

template <typename Stored, typename T>
std::vector<T> decoded(StoredType type, const std::vector<Stored>& values) {
  std::vector<T> out(values.size());
  decode(type, std::as_bytes(std::span(values)), std::span<T>(out));
  return out;
}

TEST(StoredTypeTest, All65536HalvesAndBFloatsDecodeAsDefined) {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  const auto half = decoded<uint16_t, double>(StoredType::kF16, all);
  const auto half_float = decoded<uint16_t, float>(StoredType::kF16, all);
  const auto bf16 = decoded<uint16_t, double>(StoredType::kBF16, all);
  for (size_t i = 0; i < all.size(); ++i) {
    expect_same(half[i], half_reference(all[i]), all[i]);
    expect_same(static_cast<double>(half_float[i]), half_reference(all[i]), all[i]);
    expect_same(bf16[i], bf16_reference(all[i]), all[i]);
  }
}

TEST(StoredTypeTest, DecodesSignsAndExtremes) {
  EXPECT_EQ((decoded<int8_t, double>(StoredType::kI8, {-128, -1, 127})),
            (std::vector<double>{-128, -1, 127}));
  EXPECT_EQ((decoded<uint8_t, double>(StoredType::kU8, {0, 255})), (std::vector<double>{0, 255}));
  EXPECT_EQ((decoded<int16_t, float>(StoredType::kI16, {-32768})), (std::vector<float>{-32768}));
  EXPECT_EQ((decoded<int32_t, int64_t>(StoredType::kI32, {-7})), (std::vector<int64_t>{-7}));
  const int64_t lowest = std::numeric_limits<int64_t>::min();
  EXPECT_EQ((decoded<int64_t, int64_t>(StoredType::kI64, {lowest})),
            (std::vector<int64_t>{lowest}));
  EXPECT_EQ((decoded<uint8_t, int64_t>(StoredType::kBool, {0, 1, 2})),
            (std::vector<int64_t>{0, 1, 1}));
  EXPECT_EQ((decoded<double, float>(StoredType::kF64, {0.1, 1e-320})),
            (std::vector<float>{0.1F, 0.0F}));
}

TEST(StoredTypeTest, RefusesWhatItCannotDecode) {
  EXPECT_THROW((decoded<float, int64_t>(StoredType::kF32, {1.0F})), InternalError);
  EXPECT_THROW((decoded<uint32_t, double>(StoredType::kU32, {1})), InternalError);
  std::vector<double> out(2);
  const std::vector<float> one{1.0F};
  EXPECT_THROW(decode(StoredType::kF32, std::as_bytes(std::span(one)), std::span<double>(out)),
               InternalError);
}

TEST(StoredTypeTest, NamesRoundTrip) {
  for (int i = 0; i <= static_cast<int>(StoredType::kU64); ++i) {
    const auto type = static_cast<StoredType>(i);
    EXPECT_EQ(parse_stored_type(name_of(type)), type);
  }
  EXPECT_EQ(parse_stored_type("f32"), std::nullopt);
  EXPECT_EQ(parse_stored_type(""), std::nullopt);
  EXPECT_EQ(name_of(stored_type(DType::kBF16)), "BF16");
  EXPECT_EQ(name_of(stored_type(DType::kI32)), "I32");
}

TEST(StoredTypeTest, TensorBytesChecksEveryProduct) {
  const auto bytes = [](StoredType type, std::vector<int64_t> shape) {
    return tensor_bytes(type, shape);
  };
  EXPECT_EQ(bytes(StoredType::kF32, {}), 4);
  EXPECT_EQ(bytes(StoredType::kF32, {2, 3}), 24);
  EXPECT_EQ(bytes(StoredType::kF32, {2, 0}), 0);
  EXPECT_EQ(bytes(StoredType::kF4, {3}), std::nullopt);
  EXPECT_EQ(bytes(StoredType::kF4, {4}), 2);
  EXPECT_EQ(bytes(StoredType::kF6E2M3, {4}), 3);
  const int64_t big = int64_t{1} << 62;
  EXPECT_EQ(bytes(StoredType::kU8, {big}), std::nullopt);
  EXPECT_EQ(bytes(StoredType::kU8, {int64_t{1} << 32, int64_t{1} << 32}), std::nullopt);
  EXPECT_EQ(bytes(StoredType::kU8, {big, big, 0}), std::nullopt);
  EXPECT_EQ(bytes(StoredType::kU8, {-1}), std::nullopt);
}

}  // namespace
}  // namespace tessera
