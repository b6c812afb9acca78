// A rank that is slow, or stopped, is told from one that is dead.
#include <csignal>
#include <thread>

#include "comm_faults/fault_world.h"

namespace tessera {
namespace {

using namespace tessera::testing;
using std::chrono::milliseconds;

constexpr int kRanks = 3;
constexpr int kStopped = 1;

class StopTest : public FaultTest {
 protected:
  // All ranks call in a loop, for `calls` calls, and check the sums.
  static FaultWorld::Body looping(int calls) {
    return [calls](CommWorld& world, const RankVoice& voice) {
      const auto group = world.join_all("dp");
      voice.say("ready");
      for (int i = 0; i < calls; ++i) {
        std::vector<float> data(2000, static_cast<float>(i));
        group->all_reduce(data.data(), 2000, DType::kF32);
        require(data[1999] == static_cast<float>(i * kRanks), "sum {} of call {}", data[1999], i);
        std::this_thread::sleep_for(milliseconds(1));
      }
    };
  }

  static std::vector<std::string> warnings_of(const RankEnd& end) {
    std::vector<std::string> warnings;
    for (const RankLine& line : end.lines) {
      if (line.text.starts_with("warning: ")) warnings.push_back(line.text);
    }
    return warnings;
  }
};

TEST_F(StopTest, ThreeSecondsAreReportedAndSurvived) {
  FaultWorld world({.ranks = kRanks, .slow_after = milliseconds(1000)}, looping(200));
  for (int rank = 0; rank < kRanks; ++rank) world.ranks().wait_for_line(rank, "ready");
  std::this_thread::sleep_for(milliseconds(20));
  world.ranks().signal(kStopped, SIGSTOP);
  std::this_thread::sleep_for(milliseconds(3000));
  world.ranks().signal(kStopped, SIGCONT);
  const std::vector<RankEnd> ends = world.ranks().finish();
  int warned = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    const RankEnd& end = ends[static_cast<size_t>(rank)];
    EXPECT_EQ(end.exit_code, 0) << end.error();
    const std::vector<std::string> warnings = warnings_of(end);
    EXPECT_LE(warnings.size(), 1U) << "the same wait is reported once";
    if (rank == kStopped) continue;
    warned += static_cast<int>(warnings.size());
    for (const std::string& warning : warnings) {
      EXPECT_TRUE(contains(warning, world.name_of(kStopped))) << warning;
      EXPECT_TRUE(contains(warning, "stopped")) << warning;
      EXPECT_TRUE(contains(warning, "all_reduce(f32, 2000)")) << warning;
    }
  }
  EXPECT_GE(warned, 1);
}

TEST_F(StopTest, ForEverEndsAtTheTimeoutAsStoppedNotAsDead) {
  constexpr milliseconds kTimeout{1000};
  FaultWorld world({.ranks = kRanks, .timeout = kTimeout}, looping(100'000));
  for (int rank = 0; rank < kRanks; ++rank) world.ranks().wait_for_line(rank, "ready");
  std::this_thread::sleep_for(milliseconds(20));
  world.ranks().signal(kStopped, SIGSTOP);
  const auto stopped_at = TestClock::now();
  for (const int rank : {0, 2}) world.ranks().wait_for_end(rank);
  // It wakes up in a world that has ended.
  world.ranks().signal(kStopped, SIGCONT);
  const std::vector<RankEnd> ends = world.ranks().finish();
  const auto took = expect_survivors_leave(ends, kStopped, stopped_at + kTimeout,
                                           {world.name_of(kStopped) + ", stopped", "waited 1."});
  printf("[ measured ] peers left %.1f ms after the timeout\n",
         static_cast<double>(took.count()) / 1e3);
  for (const int rank : {0, 2}) {
    const RankEnd& end = ends[static_cast<size_t>(rank)];
    // They may have begun to wait a little before it was stopped, if it was not running then.
    EXPECT_GT(end.time_of("error: "), stopped_at + kTimeout / 2) << "it was given up too early";
    for (const char* word : {"died", "killed", "exited", "left"}) {
      EXPECT_FALSE(contains(end.error(), word)) << end.error();
    }
  }
  EXPECT_TRUE(contains(ends[kStopped].error(), "waited 1.")) << ends[kStopped].error();
}

// A rank that computes for long is slow, and is described as running; each time it is.
TEST_F(StopTest, ASlowRankIsReportedAndWaitedFor) {
  FaultWorld world({.ranks = 2, .slow_after = milliseconds(200)},
                   [](CommWorld& rank, const RankVoice&) {
                     const auto group = rank.join_all("dp");
                     for (int i = 0; i < 2; ++i) {
                       if (rank.rank() == 1) std::this_thread::sleep_for(milliseconds(600));
                       group->barrier();
                     }
                   });
  const std::vector<RankEnd> ends = world.ranks().finish();
  for (const RankEnd& end : ends) EXPECT_EQ(end.exit_code, 0) << end.error();
  const std::vector<std::string> warnings = warnings_of(ends[0]);
  ASSERT_EQ(warnings.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(contains(warnings[i], world.name_of(1))) << warnings[i];
    EXPECT_TRUE(contains(warnings[i], fmt::format("barrier() #{}", i + 1))) << warnings[i];
    EXPECT_FALSE(contains(warnings[i], "stopped")) << warnings[i];
  }
  EXPECT_TRUE(warnings_of(ends[1]).empty());
}

}  // namespace
}  // namespace tessera
