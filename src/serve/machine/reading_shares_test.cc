#include "serve/machine/reading_shares.h"

#include <gtest/gtest.h>

namespace tessera::serve {
namespace {

TEST(ReadingShares, AreWhatBytesTakeBeyondTheFewest) {
  const ReadingShares shares =
      reading_shares(2, {{10, 1.0}, {20, 1.5}, {40, 2.0}, {80, 4.0}, {160, 6.0}}, 40);
  ASSERT_EQ(shares.points.size(), 5U);
  EXPECT_EQ(shares.threads, 2);
  EXPECT_EQ(shares.points[0].mid, 0);
  EXPECT_DOUBLE_EQ(shares.points[1].mid, 0.5);
  EXPECT_EQ(shares.points[2].mid, 1);
  EXPECT_EQ(shares.points[2].far, 0);
  EXPECT_DOUBLE_EQ(shares.points[3].far, 0.5);
  EXPECT_EQ(shares.points[4].far, 1);
}

TEST(ReadingShares, NeverFall) {
  const ReadingShares shares =
      reading_shares(1, {{10, 1}, {20, 3}, {40, 2}, {80, 9}, {160, 7}}, 40);
  for (size_t i = 1; i < shares.points.size(); ++i) {
    EXPECT_GE(shares.points[i].mid, shares.points[i - 1].mid);
    EXPECT_GE(shares.points[i].far, shares.points[i - 1].far);
  }
  // A machine whose caches hold everything loses nothing.
  for (const ReadingShare& point : reading_shares(1, {{10, 2}, {20, 2}, {80, 2}}, 40).points) {
    EXPECT_EQ(point.far, 0);
  }
}

}  // namespace
}  // namespace tessera::serve
