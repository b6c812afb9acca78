#include "base/rounding.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(RoundingTest, RoundsUpToWholeNumbersAndMultiples) {
  EXPECT_EQ(ceil_div(0, 4), 0);
  EXPECT_EQ(ceil_div(1, 4), 1);
  EXPECT_EQ(ceil_div(4, 4), 1);
  EXPECT_EQ(ceil_div(5, 4), 2);
  EXPECT_EQ(round_up(0, 64), 0);
  EXPECT_EQ(round_up(1, 64), 64);
  EXPECT_EQ(round_up(64, 64), 64);
  EXPECT_EQ(round_up(65, 64), 128);
}

}  // namespace
}  // namespace tessera
