#include "base/steady_exp.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(SteadyExpTest, IsTheExponential) {
  for (int i = -70'000; i <= 70'000; ++i) {
    const double x = i * 0.01;
    EXPECT_NEAR(steady_exp(x) / std::exp(x), 1, 1e-14) << x;
  }
  EXPECT_EQ(steady_exp(0), 1);
  EXPECT_EQ(steady_exp(-1e6), 0);
  EXPECT_TRUE(std::isinf(steady_exp(1e6)));
}

}  // namespace
}  // namespace tessera
