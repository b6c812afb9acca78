#include "runtime/rope_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace tessera {
namespace {

TEST(RopeFrequencies, ArePowersOfTheta) {
  const std::vector<double> f = rope_frequencies(RopeSpec(), 8);
  ASSERT_EQ(f.size(), 4U);
  const double expected[] = {1.0, 0.1, 0.01, 0.001};  // 10000^(-2i/8)
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(f[i], expected[i], 1e-15);
  RopeSpec other;
  other.theta = 500000;
  EXPECT_NEAR(rope_frequencies(other, 128)[32], 1 / std::sqrt(500000.0), 1e-15);
}

// Llama 3.1: theta 500000, factor 8, low 1, high 4, 8192 positions, heads of 128.
TEST(RopeFrequencies, Llama3KeepsShortWavesSlowsLongOnesAndBlendsBetween) {
  RopeSpec plain;
  plain.theta = 500000;
  RopeSpec scaled = plain;
  scaled.scaling = RopeScaling::kLlama3;
  const std::vector<double> before = rope_frequencies(plain, 128);
  const std::vector<double> after = rope_frequencies(scaled, 128);
  int kept = 0, slowed = 0, blended = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    const double turns = 8192 * before[i] / (2 * std::numbers::pi);  // over the original context
    if (turns > 4) {
      EXPECT_EQ(after[i], before[i]) << i;
      ++kept;
    } else if (turns < 1) {
      EXPECT_DOUBLE_EQ(after[i], before[i] / 8) << i;
      ++slowed;
    } else {
      const double keep = (turns - 1) / 3;
      EXPECT_NEAR(after[i] / before[i], keep + (1 - keep) / 8, 1e-12) << i;
      EXPECT_LT(after[i], before[i]);
      EXPECT_GT(after[i], before[i] / 8);
      ++blended;
    }
  }
  EXPECT_EQ(kept, 29);
  EXPECT_EQ(blended, 6);
  EXPECT_EQ(slowed, 29);
}

// 500000^(-2/128) by hand; the last wave is far beyond the original context.
TEST(RopeFrequencies, Llama3KnownValues) {
  RopeSpec rope;
  rope.theta = 500000;
  rope.scaling = RopeScaling::kLlama3;
  const std::vector<double> f = rope_frequencies(rope, 128);
  EXPECT_NEAR(f[0], 1.0, 1e-12);
  EXPECT_NEAR(f[1], 0.8146179, 1e-6);
  EXPECT_NEAR(f[63], std::pow(500000.0, -126.0 / 128) / 8, 1e-18);
}

TEST(RopeFrequencies, AreContinuousWhereTheRegimesMeet) {
  RopeSpec rope;
  rope.scaling = RopeScaling::kLlama3;
  rope.original_max_position = 100;
  // One frequency, moved over the borders by theta: head_dim 4, f[1] = theta^(-1/2).
  const auto at_turns = [&](double turns) {
    const double f = 2 * std::numbers::pi * turns / 100;
    rope.theta = 1 / (f * f);
    return rope_frequencies(rope, 4)[1] / f;
  };
  EXPECT_NEAR(at_turns(4 - 1e-9), at_turns(4 + 1e-9), 1e-8);
  EXPECT_NEAR(at_turns(1 - 1e-9), at_turns(1 + 1e-9), 1e-8);
  EXPECT_NEAR(at_turns(2.5), 0.5 + 0.5 / 8, 1e-12);
}

}  // namespace
}  // namespace tessera
