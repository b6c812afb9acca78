#include "base/exact_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/tree_shares.h"

namespace tessera {
namespace {

// Squares of f32 numbers of all sizes.
std::vector<double> squares(int count) {
  std::mt19937 random(7);
  std::vector<double> numbers;
  for (int i = 0; i < count; ++i) {
    const auto mantissa = static_cast<float>(random() % 100'000) - 50'000;
    const float x = std::ldexp(mantissa, static_cast<int>(random() % 240) - 130);
    numbers.push_back(static_cast<double>(x) * static_cast<double>(x));
  }
  return numbers;
}

// As several ranks do it, each a part.
double sum_in_parts(const std::vector<double>& numbers, size_t parts) {
  std::vector<double> digits(ExactSum::kDigits);
  for (size_t part = 0; part < parts; ++part) {
    ExactSum sum;
    for (size_t i = part; i < numbers.size(); i += parts) sum.add(numbers[i]);
    sum.normalize();
    sum.add_to(digits.data());
  }
  return ExactSum::value_of(digits.data());
}

TEST(ExactSumTest, NeitherOrderNorPartsMatter) {
  std::vector<double> numbers = squares(5000);
  const double whole = sum_in_parts(numbers, 1);
  std::mt19937 random(1);
  double plain = 0;
  bool plain_differs = false;
  for (size_t parts = 1; parts <= 9; ++parts) {
    std::shuffle(numbers.begin(), numbers.end(), random);
    EXPECT_EQ(sum_in_parts(numbers, parts), whole);
    double sum = 0;
    for (const double number : numbers) sum += number;
    plain_differs = plain_differs || (parts > 1 && sum != plain);
    plain = sum;
  }
  EXPECT_NEAR(plain / whole, 1, 1e-12);
  EXPECT_TRUE(plain_differs);  // additions that round do depend on their order
}

TEST(ExactSumTest, KeepsSmallBesideLarge) {
  std::vector<double> small(257, 0x1p-60);  // each alone is lost beside 1
  small[0] = 1;
  EXPECT_EQ(sum_in_parts(small, 3), 1 + 0x1p-52);
  EXPECT_EQ(sum_in_parts({0x1p100, 0x1p-100}, 2), 0x1p100);
  EXPECT_EQ(sum_in_parts({3, 4}, 1), 7);
  EXPECT_EQ(sum_in_parts({}, 1), 0);
  EXPECT_EQ(sum_in_parts({0, 0x1p-1074}, 1), 0);               // too small to count
  EXPECT_EQ(sum_in_parts({0x1p-252, 0x1p-252}, 2), 0x1p-251);  // the smallest normal f32, squared
}

TEST(ExactSumTest, NoNumberAmongNumbers) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(std::isnan(sum_in_parts({1, infinity, 2}, 3)));
  EXPECT_TRUE(std::isnan(sum_in_parts({1, std::nan(""), 2}, 2)));
  EXPECT_TRUE(std::isnan(sum_in_parts({0x1p300}, 1)));
  EXPECT_EQ(sum_in_parts({0x1p255, 0x1p255}, 1), 0x1p256);  // the largest f32, squared
}

TEST(TreeSharesTest, CoverAllLeavesInAlignedParts) {
  for (const int64_t leaves : {1, 2, 4, 8, 64}) {
    for (int64_t owners = 1; owners <= leaves; ++owners) {
      int64_t next = 0;
      for (int64_t owner = 0; owner < owners; ++owner) {
        const TreeShare share = tree_share(leaves, owners, owner);
        EXPECT_EQ(share.first, next);
        EXPECT_TRUE(std::has_single_bit(static_cast<uint64_t>(share.count)));
        EXPECT_EQ(share.first % share.count, 0);
        EXPECT_LE(share.count, tree_share(leaves, owners, 0).count);
        EXPECT_GE(2 * share.count, tree_share(leaves, owners, 0).count);
        next += share.count;
      }
      EXPECT_EQ(next, leaves);
    }
  }
}

}  // namespace
}  // namespace tessera
