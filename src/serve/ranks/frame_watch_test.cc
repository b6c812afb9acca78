#include "serve/ranks/frame_watch.h"

#include <gtest/gtest.h>

namespace tessera::serve {
namespace {

using std::chrono::milliseconds;

class Clocked {
 public:
  explicit Clocked(int ranks, FrameWatchBounds bounds = {})
      : watch_(bounds), sights_(static_cast<size_t>(ranks)), now_(std::chrono::hours(1)) {}

  RankSight& rank(int r) { return sights_[static_cast<size_t>(r)]; }
  void under_way(uint64_t oldest, int64_t tokens) { frames_ = FramesUnderWay{oldest, tokens}; }
  void idle() { frames_.reset(); }
  void works(int r) { ++rank(r).progress.calls; }

  // Looks every 100 ms for so long, or until something is found.
  std::optional<FrameWatch::Finding> pass(milliseconds time) {
    for (milliseconds gone{0}; gone < time; gone += milliseconds(100)) {
      now_ += milliseconds(100);
      if (const auto found = watch_.look(now_, sights_, frames_)) return found;
    }
    return std::nullopt;
  }
  void miss(milliseconds time) { now_ += time; }

 private:
  FrameWatch watch_;
  std::vector<RankSight> sights_;
  std::optional<FramesUnderWay> frames_;
  FrameWatch::Time now_;
};

TEST(FrameWatchTest, ARankThatIsStoppedIsNamedAlsoWithoutAFrame) {
  Clocked ranks(3);
  EXPECT_FALSE(ranks.pass(milliseconds(5'000)));
  ranks.rank(1).stopped = true;
  const auto found = ranks.pass(milliseconds(5'000));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->verdict, Verdict::kStopped);
  EXPECT_EQ(found->rank, 1);
  EXPECT_GE(found->time, milliseconds(1'000));
  EXPECT_LE(found->time, milliseconds(1'200));
  EXPECT_FALSE(ranks.pass(milliseconds(9'000))) << "once is enough";
}

TEST(FrameWatchTest, TheOnlyRankIsNamedToo) {
  Clocked ranks(1);
  ranks.rank(0).stopped = true;
  EXPECT_TRUE(ranks.pass(milliseconds(1'500)));
}

TEST(FrameWatchTest, ARankThatGoesOnInTimeIsLeftAlone) {
  Clocked ranks(2);
  for (int i = 0; i < 5; ++i) {
    ranks.rank(0).stopped = true;
    EXPECT_FALSE(ranks.pass(milliseconds(900)));
    ranks.rank(0).stopped = false;
    EXPECT_FALSE(ranks.pass(milliseconds(100)));
  }
}

TEST(FrameWatchTest, OfRanksThatWaitTheOneThatWaitsForNobodyHangs) {
  Clocked ranks(4);
  for (int r = 0; r < 4; ++r) ranks.rank(r).progress.step = step_in_frame(7);
  ranks.rank(0).progress.step = step_after_frame(7);
  for (const int r : {1, 3}) ranks.rank(r).progress.waits_for = 2;
  ranks.under_way(7, 1);
  const auto found = ranks.pass(milliseconds(10'000));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->verdict, Verdict::kHung);
  EXPECT_EQ(found->rank, 2);
  EXPECT_GE(found->time, milliseconds(3'400));
  EXPECT_LE(found->time, milliseconds(3'700));
}

TEST(FrameWatchTest, ARankWithNothingToDoDoesNotHang) {
  Clocked ranks(2);
  for (int r = 0; r < 2; ++r) ranks.rank(r).progress.step = step_after_frame(3);
  ranks.idle();
  EXPECT_FALSE(ranks.pass(milliseconds(60'000)));
  ranks.under_way(4, 1);
  EXPECT_FALSE(ranks.pass(milliseconds(3'000))) << "what it did not do before does not count";
  EXPECT_TRUE(ranks.pass(milliseconds(1'000)));
}

TEST(FrameWatchTest, WhoHasBeenStillForLongMayBeSoAgainAndLongerForMoreTokens) {
  Clocked ranks(1);
  ranks.rank(0).progress.step = step_in_frame(1);
  ranks.under_way(1, 64);
  EXPECT_FALSE(ranks.pass(milliseconds(3'000)));
  ranks.works(0);
  ranks.rank(0).progress.step = step_in_frame(2);
  EXPECT_FALSE(ranks.pass(milliseconds(11'500)));  // four times 3 s
  ranks.works(0);
  ranks.under_way(2, 128);
  EXPECT_FALSE(ranks.pass(milliseconds(80'000)));  // of 11.5 s, twice as many tokens: 92 s
  const auto found = ranks.pass(milliseconds(20'000));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->verdict, Verdict::kHung);
}

TEST(FrameWatchTest, TheFirstFrameMayTakeLong) {
  Clocked ranks(1);
  ranks.rank(0).progress.step = step_in_frame(0);
  ranks.under_way(0, 1);
  EXPECT_FALSE(ranks.pass(milliseconds(69'000)));
  EXPECT_TRUE(ranks.pass(milliseconds(2'000)));
}

TEST(FrameWatchTest, WhatWasMissedProvesNothing) {
  Clocked ranks(1);
  ranks.rank(0).progress.step = step_in_frame(5);
  ranks.rank(0).stopped = true;
  ranks.under_way(5, 1);
  EXPECT_FALSE(ranks.pass(milliseconds(800)));
  ranks.miss(milliseconds(60'000));
  EXPECT_FALSE(ranks.pass(milliseconds(900)));
  ranks.rank(0).stopped = false;
  EXPECT_FALSE(ranks.pass(milliseconds(2'000)));
  ranks.miss(milliseconds(60'000));
  EXPECT_FALSE(ranks.pass(milliseconds(3'000)));
  EXPECT_TRUE(ranks.pass(milliseconds(1'000)));
}

TEST(FrameWatchTest, SaysWhereARankIs) {
  EXPECT_EQ(frame_text(0), "before its first frame");
  EXPECT_EQ(frame_text(step_in_frame(7)), "in frame 7");
  EXPECT_EQ(frame_text(step_after_frame(7)), "after frame 7");
}

}  // namespace
}  // namespace tessera::serve
