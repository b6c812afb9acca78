#include "launch/agent/job_end.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <vector>

#include "launch/rank_failure.h"
#include "launch/rank_list.h"

namespace tessera {
namespace {

RankEnd ended(int code, int signal = 0) {
  return {.pid = 10, .exit = ChildExit{.code = code, .signal = signal}};
}

RankEnd killed_late() {
  return {.pid = 10, .exit = ChildExit{.code = 0, .signal = SIGKILL}, .killed_by_agent = true};
}

TEST(RankListTest, WritesRuns) {
  const auto text = [](std::vector<int> ranks) { return rank_list(ranks); };
  EXPECT_EQ(text({2}), "rank 2");
  EXPECT_EQ(text({0, 1, 2, 3}), "ranks 0-3");
  EXPECT_EQ(text({1, 3}), "ranks 1 and 3");
  EXPECT_EQ(text({0, 1, 3, 5, 6, 7}), "ranks 0-1, 3 and 5-7");
}

TEST(RankFailureTest, FindsTheRankOfAReason) {
  EXPECT_EQ(rank_of_reason("rank 12: the disk is full"), 12);
  EXPECT_EQ(rank_of_reason("rank 3 (pid 4711) was killed by SIGKILL"), 3);
  // Where two disagree, neither is known to be wrong.
  EXPECT_EQ(rank_of_reason("rank 2 called barrier() #1 while rank 0 called all_reduce"),
            std::nullopt);
  for (const char* reason : {"", "rank", "rank ", "rank x: y", "rank -1: y", "group tp: rank 3"}) {
    EXPECT_EQ(rank_of_reason(reason), std::nullopt) << reason;
  }
}

TEST(RankFailureTest, FindsTheRankThatWasWaitedFor) {
  EXPECT_EQ(rank_waited_for("group dp: rank 0 waited 60.000 s in barrier() #3 for rank 12 (pid 47, "
                            "running) (made 2 calls)"),
            12);
  for (const char* reason : {"", "group dp: rank 0 left", "rank 1: waited for rank 2 (pid 3)",
                             "group dp: rank 0 waited 1 s for nobody"}) {
    EXPECT_EQ(rank_waited_for(reason), std::nullopt) << reason;
  }
}

TEST(JobEndTest, SaysNothingOfSuccess) {
  const std::vector<RankEnd> ranks = {ended(0), ended(0)};
  const JobEnd end = judge({.ranks = ranks, .reason = "aborted by somebody who then ended well"});
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_EQ(end.message, "");
}

// Rank 0 was seen to fail first, but only because of rank 2.
TEST(JobEndTest, TakesTheCodeOfTheRankThatTheReasonNames) {
  std::vector<RankEnd> ranks = {ended(1), ended(1), ended(5)};
  ranks[2].last_call = "barrier() #3";
  const JobEnd end = judge({.ranks = ranks, .first_failed = 0, .reason = "rank 2: out of luck"});
  EXPECT_EQ(end.exit_code, 5);
  EXPECT_EQ(end.message, "rank 2: out of luck; the last call of rank 2 was barrier() #3");
}

TEST(JobEndTest, TakesTheFirstWhereTheReasonNamesNobodyThatFailed) {
  const std::vector<RankEnd> ranks = {ended(3), ended(1), ended(0)};
  for (const char* reason : {"the heap is full", "rank 2: well", "rank 9: not of this job"}) {
    const JobEnd end = judge({.ranks = ranks, .first_failed = 0, .reason = reason});
    EXPECT_EQ(end.exit_code, 3);
    EXPECT_EQ(end.message, reason);
  }
}

TEST(JobEndTest, DoesNotRepeatTheLastCall) {
  std::vector<RankEnd> ranks = {ended(0, SIGKILL)};
  ranks[0].last_call = "barrier() #3";
  const std::string reason = "rank 0 (pid 10) was killed by SIGKILL, last in barrier() #3";
  const JobEnd end = judge({.ranks = ranks, .first_failed = 0, .reason = reason});
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_EQ(end.message, reason);
}

// Where a rank was when it found a mistake in a run file, or NaN, explains nothing.
TEST(JobEndTest, AddsNoLastCallToAMistakeOfTheUser) {
  for (const int code : {2, 3, 4}) {
    std::vector<RankEnd> ranks = {ended(0), ended(code)};
    ranks[1].last_call = "broadcast(u8, 1635, root 0) #2 of group control";
    const JobEnd end =
        judge({.ranks = ranks, .first_failed = 1, .reason = "rank 1: data 'x' is empty"});
    EXPECT_EQ(end.exit_code, code);
    EXPECT_EQ(end.message, "rank 1: data 'x' is empty");
  }
}

TEST(JobEndTest, SaysWhatAKillUsuallyMeans) {
  std::vector<RankEnd> ranks = {killed_late(), ended(0, SIGKILL)};
  const JobHistory history = {.ranks = ranks,
                              .first_failed = 1,
                              .if_killed = "probably out of memory: planned 5 GiB",
                              .reason = "rank 1 (pid 10) was killed by SIGKILL"};
  EXPECT_EQ(judge(history).message,
            "rank 1 (pid 10) was killed by SIGKILL; probably out of memory: planned 5 GiB; rank 0 "
            "did not end in time and was killed");
  ranks[1] = ended(0, SIGSEGV);
  EXPECT_EQ(judge(history).message.find("memory"), std::string::npos);
}

TEST(JobEndTest, SaysHowARankDiedWhereItsPeersCouldNot) {
  std::vector<RankEnd> ranks = {ended(1), ended(0, SIGKILL)};
  const JobHistory history = {
      .ranks = ranks, .first_failed = 0, .reason = "rank 1 (pid 10) died, last in barrier() #3"};
  EXPECT_EQ(judge(history).message, "rank 1 (pid 10) was killed by SIGKILL, last in barrier() #3");
  ranks[1] = ended(3);
  EXPECT_EQ(judge(history).message, "rank 1 (pid 10) exited with code 3, last in barrier() #3");
  EXPECT_EQ(judge(history).exit_code, 3);
}

TEST(JobEndTest, KnowsWhatToSayWithoutAReason) {
  std::vector<RankEnd> ranks = {ended(0), ended(7)};
  EXPECT_EQ(judge({.ranks = ranks, .first_failed = 1}).message,
            "rank 1 (pid 10) exited with code 7; it gave no reason");
  ranks[1] = ended(0, SIGBUS);
  ranks[1].last_call = "barrier() #3";
  EXPECT_EQ(judge({.ranks = ranks, .first_failed = 1}).message,
            "rank 1 (pid 10) was killed by SIGBUS; its last call was barrier() #3");
}

TEST(JobEndTest, NamesThoseThatHadToBeKilled) {
  const std::vector<RankEnd> ranks = {ended(2), killed_late(), killed_late(), {.pid = 11}};
  const JobEnd end = judge({.ranks = ranks, .first_failed = 0, .reason = "rank 0: no"});
  EXPECT_EQ(end.exit_code, 2);
  EXPECT_EQ(end.message,
            "rank 0: no; ranks 1-2 did not end in time and were killed; rank 3 cannot be killed: "
            "waiting inside the kernel, probably for a disk");
}

TEST(JobEndTest, AStopIsNoFailure) {
  const std::vector<RankEnd> ranks = {ended(130), ended(130)};
  const JobEnd end = judge({.ranks = ranks, .stop_signal = SIGINT});
  EXPECT_EQ(end.exit_code, 130);
  EXPECT_EQ(end.message, "");
}

TEST(JobEndTest, AStopThatLosesNothingAsksToBeStartedAgain) {
  const std::vector<RankEnd> ranks = {ended(143), ended(143)};
  const auto code = [&](int signal, bool checkpointed) {
    return judge({.ranks = ranks, .stop_signal = signal, .checkpointed = checkpointed}).exit_code;
  };
  EXPECT_EQ(code(SIGTERM, true), 85);
  EXPECT_EQ(code(SIGUSR1, true), 85);
  EXPECT_EQ(code(SIGTERM, false), 143);
  EXPECT_EQ(code(SIGUSR1, false), 138);
  EXPECT_EQ(code(SIGINT, true), 130);  // people know what they did
  EXPECT_EQ(code(SIGHUP, true), 129);
}

TEST(JobEndTest, AFailureDuringAStopIsTold) {
  const std::vector<RankEnd> ranks = {ended(1), ended(1)};
  JobEnd end = judge(
      {.ranks = ranks, .stop_signal = SIGTERM, .first_failed = 1, .reason = "rank 1: cannot save"});
  EXPECT_EQ(end.exit_code, 143);
  EXPECT_EQ(end.message, "stopped by SIGTERM; while ending: rank 1: cannot save");
  // The abort after the grace is the agent's own.
  end = judge(
      {.ranks = ranks, .stop_signal = SIGTERM, .first_failed = 1, .reason = "stopped by SIGTERM"});
  EXPECT_EQ(end.message, "");
}

}  // namespace
}  // namespace tessera
