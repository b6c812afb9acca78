#include "base/philox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace tessera {
namespace {

// Known answers published with Random123 (kat_vectors, philox4x32 10).
TEST(PhiloxTest, MatchesPublishedVectors) {
  using Counter = std::array<uint32_t, 4>;
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({ones, ones, ones, ones}, {ones, ones}),
            (Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// Standard error of the mean of n uniforms is 1/sqrt(12 n); the bounds are five of them.
TEST(PhiloxTest, UniformsFillTheUnitInterval) {
  constexpr int kCount = 200'000;
  double sum = 0, lowest = 1, highest = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    const double value = uniform_at(1, 2, i);
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    sum += value;
    lowest = std::min(lowest, value);
    highest = std::max(highest, value);
  }
  EXPECT_NEAR(sum / kCount, 0.5, 5 / std::sqrt(12.0 * kCount));
  EXPECT_LT(lowest, 1e-4);
  EXPECT_GT(highest, 1 - 1e-4);
}

TEST(PhiloxTest, NormalsHaveTheMomentsOfAStandardNormal) {
  constexpr int kCount = 400'000;
  double sum = 0, square = 0, cube = 0, fourth = 0, lag = 0, previous = 0;
  int beyond_two = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    const double value = normal_at(7, 11, i);
    ASSERT_TRUE(std::isfinite(value));
    sum += value;
    square += value * value;
    cube += value * value * value;
    fourth += value * value * value * value;
    lag += value * previous;
    previous = value;
    beyond_two += std::abs(value) > 2 ? 1 : 0;
  }
  const double n = kCount;
  const double five_errors = 5 / std::sqrt(n);
  EXPECT_NEAR(sum / n, 0, five_errors);
  EXPECT_NEAR(square / n, 1, five_errors * std::sqrt(2.0));
  EXPECT_NEAR(cube / n, 0, five_errors * std::sqrt(15.0));
  EXPECT_NEAR(fourth / n, 3, five_errors * std::sqrt(96.0));
  EXPECT_NEAR(lag / n, 0, five_errors);
  EXPECT_NEAR(beyond_two / n, std::erfc(std::sqrt(2.0)), five_errors * 0.21);
}

TEST(PhiloxTest, SeedStreamAndIndexEachChangeTheValue) {
  const uint64_t high_bit = uint64_t{1} << 40;  // must not be lost to 32-bit truncation
  std::set<double> values;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, high_bit}) {
    for (const uint64_t stream : {uint64_t{0}, uint64_t{1}, high_bit}) {
      for (const uint64_t index : {uint64_t{0}, uint64_t{1}, high_bit}) {
        values.insert(normal_at(seed, stream, index));
        EXPECT_EQ(normal_at(seed, stream, index), normal_at(seed, stream, index));
      }
    }
  }
  EXPECT_EQ(values.size(), 27U);
}

}  // namespace
}  // namespace tessera
