#include "cli/other_load.h"

#include <gtest/gtest.h>

#include <sstream>

namespace tessera {
namespace {

TEST(OtherLoadTest, CountsWhatCoresDidAndWhatWasTakenAway) {
  std::istringstream stat("cpu  100 20 30 5000 400 6 7 8 90 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n");
  EXPECT_EQ(busy_ticks(stat), 100 + 20 + 30 + 6 + 7 + 8);
}

TEST(OtherLoadTest, IsNothingWhereTheSystemDoesNotSay) {
  std::istringstream empty("");
  EXPECT_EQ(busy_ticks(empty), 0);
}

TEST(OtherLoadTest, WarnsOfOthersOnly) {
  EXPECT_EQ(load_warning(0.01), "");
  EXPECT_NE(load_warning(0.84).find("others used 0.84 cores"), std::string::npos);
  EXPECT_GE(OtherLoad().cores(), 0);
}

}  // namespace
}  // namespace tessera
