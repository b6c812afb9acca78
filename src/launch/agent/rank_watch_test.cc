#include "launch/agent/rank_watch.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

using std::chrono::milliseconds;
using Kind = WatchFinding::Kind;

// Three ranks whose time a test moves.
class RankWatchTest : public ::testing::Test {
 protected:
  // Looks every tick for `time`; what was found, all together.
  std::vector<WatchFinding> pass(milliseconds time, bool working = false) {
    std::vector<WatchFinding> found;
    for (const milliseconds end = clock_ + time; clock_ < end; clock_ += bounds_.tick()) {
      if (working) work();
      for (const WatchFinding& one : watch_.look(RankWatch::Time(clock_), ranks_)) {
        found.push_back(one);
      }
    }
    return found;
  }
  void work() {
    for (RankSight& rank : ranks_) {
      rank.progress.left |= 1U << static_cast<uint32_t>(rank.progress.section);
      rank.progress.section = RunSection::kStep;
      ++rank.progress.step;
      ++rank.progress.beats;
    }
  }

  WatchBounds bounds_{milliseconds(100), milliseconds(200), milliseconds(400)};
  std::vector<RankSight> ranks_{3};
  RankWatch watch_{3, bounds_};
  milliseconds clock_{1'000'000};
};

TEST_F(RankWatchTest, RanksThatWorkAreLeftAlone) {
  EXPECT_TRUE(pass(milliseconds(5'000), /*working=*/true).empty());
}

TEST_F(RankWatchTest, AStoppedRankIsNamedAndThenTooLong) {
  EXPECT_TRUE(pass(milliseconds(500), true).empty());
  ranks_[1].stopped = true;
  const auto found = pass(milliseconds(1'000));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].kind, Kind::kStopped);
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_EQ(found[1].kind, Kind::kStoppedTooLong);
  EXPECT_EQ(found[1].rank, 1);
  EXPECT_GE(found[1].time, bounds_.stopped_after + bounds_.stopped_grace);
}

TEST_F(RankWatchTest, AStoppedRankMayGoOn) {
  ranks_[2].stopped = true;
  EXPECT_EQ(pass(milliseconds(200)).size(), 1U);
  ranks_[2].stopped = false;
  const auto found = pass(milliseconds(1'000), true);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, Kind::kGoesOn);
  EXPECT_EQ(found[0].rank, 2);
}

TEST_F(RankWatchTest, AJobThatIsPausedAsAWholeIsNotStopped) {
  pass(milliseconds(500), true);
  for (RankSight& rank : ranks_) rank.stopped = true;
  EXPECT_TRUE(pass(milliseconds(5'000)).empty());
}

TEST_F(RankWatchTest, TheOneThatAllWaitForIsHung) {
  pass(milliseconds(500), true);
  ranks_[0].progress.waits_for = 2;
  ranks_[1].progress.waits_for = 0;
  const auto found = pass(milliseconds(2'000));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind, Kind::kHung);
  EXPECT_EQ(found[0].rank, 2);
  EXPECT_GE(found[0].time, bounds_.hung_after);
}

// Where all wait, the one that most wait for.
TEST_F(RankWatchTest, ADeadlockHasACulprit) {
  pass(milliseconds(500), true);
  ranks_[0].progress.waits_for = 1;
  ranks_[1].progress.waits_for = 2;
  ranks_[2].progress.waits_for = 1;
  const auto found = pass(milliseconds(2'000));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 1);
}

TEST_F(RankWatchTest, ASectionThatNobodyHasLeftGetsTime) {
  EXPECT_TRUE(pass(kFirstVisit * bounds_.hung_after - milliseconds(100)).empty());
  EXPECT_EQ(pass(milliseconds(500)).size(), 1U);
}

TEST_F(RankWatchTest, LongStepsMayTakeLong) {
  work();
  for (int step = 0; step < 3; ++step) {
    EXPECT_TRUE(pass(milliseconds(1'000)).empty());
    work();
  }
  EXPECT_TRUE(pass(milliseconds(3'500)).empty());
  EXPECT_EQ(pass(milliseconds(1'000)).size(), 1U);
}

TEST_F(RankWatchTest, CollectivesAreProgress) {
  pass(milliseconds(500), true);
  for (int call = 0; call < 20; ++call) {
    ++ranks_[0].progress.calls;
    EXPECT_TRUE(pass(milliseconds(300)).empty());
  }
}

// ^Z stops whoever looks, too.
TEST_F(RankWatchTest, WhatWasMissedProvesNothing) {
  pass(milliseconds(500), true);
  clock_ += milliseconds(100'000);
  EXPECT_TRUE(pass(milliseconds(300)).empty());
  EXPECT_EQ(pass(milliseconds(2'000)).size(), 1U);
}

}  // namespace
}  // namespace tessera
