#include "kernels/cpu/numeric.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tessera::kernels::cpu {
namespace {

TEST(Exp, IsWithinTwoUnitsInTheLastPlace) {
  double worst = 0;
  for (double x = -86.5; x < 88.7; x += 0.000731) {
    const auto exact = std::exp(static_cast<double>(static_cast<float>(x)));
    const double got = fast_exp(static_cast<float>(x));
    worst = std::max(worst, std::abs(got / exact - 1));
  }
  EXPECT_LT(worst, 2e-7);
}

TEST(Exp, HandlesTheEnds) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(fast_exp(-kInf), 0.0F);
  EXPECT_EQ(fast_exp(-1e30F), 0.0F);
  EXPECT_EQ(fast_exp(-100.0F), 0.0F);
  EXPECT_EQ(fast_exp(0.0F), 1.0F);
  EXPECT_EQ(fast_exp(kInf), kInf);
  EXPECT_EQ(fast_exp(1e30F), kInf);
  EXPECT_EQ(fast_exp(88.8F), kInf);
  EXPECT_TRUE(std::isnan(fast_exp(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace tessera::kernels::cpu
