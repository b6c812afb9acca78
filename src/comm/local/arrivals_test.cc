#include "comm/local/arrivals.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

using std::chrono::milliseconds;

TEST(ArrivalsTest, CompleteWhenAllHaveArrived) {
  Arrivals arrivals;
  arrivals.arrive(2);
  EXPECT_EQ(arrivals.wait(2, nullptr, milliseconds(1)), WaitResult::kTimeout);
  arrivals.arrive(2);
  EXPECT_EQ(arrivals.wait(2, nullptr, milliseconds(1)), WaitResult::kReady);
  EXPECT_FALSE(arrivals.withdraw(2));
  arrivals.arrive(4);
  EXPECT_EQ(arrivals.wait(2, nullptr, milliseconds(1)), WaitResult::kReady);
  EXPECT_EQ(arrivals.wait(4, nullptr, milliseconds(1)), WaitResult::kTimeout);
}

// The late rank must not take the phase for complete: the first one is gone with its buffers.
TEST(ArrivalsTest, NothingCompletesAfterAWithdrawal) {
  Arrivals arrivals;
  arrivals.arrive(3);
  arrivals.arrive(3);
  EXPECT_TRUE(arrivals.withdraw(3));
  EXPECT_TRUE(arrivals.withdraw(3));
  arrivals.arrive(3);
  EXPECT_EQ(arrivals.wait(3, nullptr, milliseconds(1)), WaitResult::kTimeout);
  EXPECT_TRUE(arrivals.withdraw(3));
}

}  // namespace
}  // namespace tessera
