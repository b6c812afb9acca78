// What the coordinator does about ranks that do not go on, and about hosts that leave and come
// back.
#include <csignal>

#include "launch/testing/coordinator_play.h"

namespace tessera {
namespace {

using std::chrono::milliseconds;
using testing::CoordinatorTest;
using testing::kLease;
using testing::kRun;
using Kind = ControlKind;

// ---- ranks that do not go on

// Two hosts with two ranks each, that tell how they do.
class WatchedHostsTest : public CoordinatorTest {
 protected:
  WatchedHostsTest() {
    options_.watch = {.stopped_after = milliseconds(2'000),
                      .stopped_grace = milliseconds(3'000),
                      .hung_after = milliseconds(10'000)};
    begin({.run = kRun});
    run();
    for (int rank = 0; rank < 4; ++rank) {
      sights_.push_back({.progress = {.section = RunSection::kStep,
                                      .step = 5,
                                      .left = 1U << static_cast<uint32_t>(RunSection::kStep),
                                      .beats = 3}});
    }
  }
  void tell(int host) {
    const auto first = static_cast<size_t>(2 * host);
    say(host, Kind::kSight, 1,
        to_body(HostSight{.ranks = {sights_[first], sights_[first + 1]},
                          .pids = {100 + 2 * host, 101 + 2 * host}}));
  }
  void tell_for(milliseconds time, const std::vector<int>& hosts) {
    for (milliseconds done{0}; done < time; done += milliseconds(500)) {
      for (const int host : hosts) tell(host);
      pass_with(milliseconds(500), {0, 1});
    }
  }
  std::vector<RankSight> sights_;
};

TEST_F(WatchedHostsTest, ARankThatHangsIsFoundOverAllHostsAndKilledOnItsOwn) {
  for (const int rank : {0, 1, 2}) sights_[static_cast<size_t>(rank)].progress.waits_for = 3;
  tell_for(milliseconds(10'000), {0, 1});
  EXPECT_EQ(orders(), "");
  tell_for(milliseconds(500), {0, 1});
  EXPECT_EQ(orders(), "0:where1 1:where1");
  EXPECT_TRUE(troubles_.empty());
  say(1, Kind::kWhere, 1,
      to_body(HostWhereabouts{{"rank 2 waits for rank 3", "rank 3 waits for nobody"},
                              {"poll", "spin < step"},
                              "stacks of host 1\n"}));
  pass(milliseconds(1));
  EXPECT_EQ(orders(), "");
  say(0, Kind::kWhere, 1, to_body(HostWhereabouts{{"rank 0", "rank 1"}, {"", ""}, "host 0\n"}));
  pass(milliseconds(1));
  EXPECT_EQ(orders(), "1:kill1");
  ASSERT_EQ(troubles_.size(), 1U);
  EXPECT_EQ(troubles_[0].verdict, Verdict::kHung);
  EXPECT_EQ(troubles_[0].rank, 3);
  EXPECT_EQ(troubles_[0].pid, 103);
  EXPECT_EQ(troubles_[0].step, 5);
  EXPECT_EQ(troubles_[0].at, "spin < step");
  EXPECT_EQ(troubles_[0].stacks, "host 0\nstacks of host 1\n");
  EXPECT_EQ(troubles_[0].ranks.size(), 4U);
}

TEST_F(WatchedHostsTest, AHostThatDoesNotSayWhereItsRanksAreHoldsUpNobody) {
  sights_[0].progress.waits_for = 1;
  tell_for(milliseconds(10'500), {0, 1});
  EXPECT_EQ(orders(), "0:where1 1:where1");
  pass_with(HostsWatch::kAnswerWait + milliseconds(500), {0, 1});
  ASSERT_EQ(troubles_.size(), 1U);
  EXPECT_EQ(troubles_[0].ranks[3], "rank 3: its host has not said");
  EXPECT_NE(orders().find(":kill1"), std::string::npos);
}

TEST_F(WatchedHostsTest, ASilentHostProvesNothing) {
  tell_for(milliseconds(30'000), {0});
  EXPECT_EQ(orders(), "");
  EXPECT_TRUE(troubles_.empty());
}

TEST_F(WatchedHostsTest, ARankThatIsStoppedIsNamedAndThenKilled) {
  sights_[2].stopped = true;
  sights_[3].stopped = true;  // all of one host: somebody may have paused that host alone
  tell_for(milliseconds(2'500), {0, 1});
  ASSERT_EQ(troubles_.size(), 2U);
  EXPECT_EQ(troubles_[0].verdict, Verdict::kStopped);
  EXPECT_EQ(troubles_[0].rank, 2);
  EXPECT_EQ(orders(), "");
  tell_for(milliseconds(3'000), {0, 1});
  EXPECT_EQ(orders(), "1:kill1");
}

TEST_F(WatchedHostsTest, WhereAllAreStoppedSomebodyHasPausedTheJob) {
  for (RankSight& sight : sights_) sight.stopped = true;
  tell_for(milliseconds(30'000), {0, 1});
  EXPECT_TRUE(troubles_.empty());
  EXPECT_EQ(orders(), "");
}

TEST_F(WatchedHostsTest, ASightThatCannotBeIsRefused) {
  EXPECT_THROW(say(0, Kind::kSight, 1, to_body(HostSight{.ranks = {sights_[0]}, .pids = {1}})),
               Error);
  sights_[1].progress.waits_for = 4;
  EXPECT_THROW(tell(0), Error);
  EXPECT_THROW(say(0, Kind::kWhere, 1, to_body(HostWhereabouts{})), Error);
  EXPECT_THROW(say(0, Kind::kSight, 1, "short"), Error);
}

// ---- other numbers of hosts

// Up to three hosts with one rank each; the run may have one to three.
class ElasticHostsTest : public CoordinatorTest {
 protected:
  ElasticHostsTest() { begin_elastic({1, 2, 3}, 0); }

  void begin_elastic(const std::vector<int>& sizes, int64_t grow_after) {
    options_.sizes = sizes;
    options_.grow_after = grow_after;
    begin({.run = kRun});
    options_.hosts = options_.world = 3;
    coordinator_.emplace(options_, CoordinatorState{.run = kRun}, now_);
  }
  void ready_one(int host, uint64_t generation) {
    say(host, Kind::kReady, generation, to_body(std::vector<std::string>{"a:1"}));
  }
  void run_three() {
    for (const int host : {0, 1, 2}) EXPECT_EQ(join(host), "");
    pass(milliseconds(1));
    EXPECT_EQ(orders(), "0:prepare1 1:prepare1 2:prepare1");
    for (const int host : {0, 1, 2}) ready_one(host, 1);
    EXPECT_EQ(orders(), "0:start1 1:start1 2:start1");
  }
  // Host 1 is lost, and the others go on without it.
  void shrink() {
    run_three();
    pass_with(kLease, {0, 2});
    EXPECT_EQ(orders(), "0:end1 2:end1");
    for (const int host : {0, 2}) ended(host, 1, {.exit_code = 1, .why = kOrdered});
    pass(milliseconds(1));
    pass_with(kLease - milliseconds(500), {0, 2});
    EXPECT_EQ(orders(), "");  // it may come back, or a spare
    pass_with(milliseconds(500), {0, 2});
    EXPECT_EQ(orders(), "0:prepare2 2:prepare2");
    EXPECT_EQ(kept_.places, (std::vector<int>{0, 2}));
    for (const int host : {0, 2}) ready_one(host, 2);
    EXPECT_EQ(orders(), "0:start2 2:start2");
  }
  // What host 0 tells of a run that has done so many steps.
  void tell_steps(int64_t steps, uint64_t generation = 2) {
    HostSight sight{.ranks = {RankSight{}}, .pids = {1}};
    sight.run = {.steps_done = steps, .section = RunSection::kStep, .step = steps + 1};
    say(0, Kind::kSight, generation, to_body(sight));
    pass(milliseconds(1));
  }
  static constexpr auto kOrdered = GenerationReport::Why::kOrdered;
};

TEST_F(ElasticHostsTest, GoesOnWithTheHostsThatAreThereAndGrowsWhenOneComes) {
  shrink();
  ASSERT_EQ(resizes_.size(), 1U);
  EXPECT_TRUE(resizes_[0].starts_with("2: 3 -> 2 (host 1 has not been heard of")) << resizes_[0];
  EXPECT_EQ(losses_.size(), 1U);
  EXPECT_EQ(join(1, "again"), "");
  tell_steps(6);
  EXPECT_EQ(orders(), "");  // this generation has done nothing yet
  tell_steps(7);
  EXPECT_EQ(orders(), "0:room2 2:room2");
  ended(0, 2, {.exit_code = 128 + SIGUSR2});
  EXPECT_EQ(orders(), "2:end2");
  ended(2, 2, {.exit_code = 128 + SIGUSR2});
  pass(milliseconds(1));
  EXPECT_EQ(orders(), "0:prepare3 2:prepare3 1:prepare3");
  EXPECT_EQ(resizes_.back(), "3: 2 -> 3 (a host has come)");
  EXPECT_EQ(losses_.size(), 1U);
  EXPECT_EQ(kept_.failures.used, 1);
}

TEST_F(ElasticHostsTest, AHostThatComesBackInTimeIsNotMissed) {
  run_three();
  pass_with(kLease, {0, 2});
  (void)orders();
  for (const int host : {0, 2}) ended(host, 1, {.exit_code = 1, .why = kOrdered});
  pass_with(milliseconds(1'000), {0, 2});
  EXPECT_EQ(join(1, "again"), "");
  pass(milliseconds(1));
  EXPECT_EQ(orders(), "0:prepare2 1:prepare2 2:prepare2");
  EXPECT_TRUE(resizes_.empty());
}

TEST_F(ElasticHostsTest, GrowsAfterSoManyStepsOrWhenAsked) {
  for (const bool asked : {false, true}) {
    resizes_.clear();
    begin_elastic({1, 2, 3}, 4);
    shrink();
    EXPECT_EQ(join(1, "again"), "");
    tell_steps(6);
    tell_steps(9);
    EXPECT_EQ(orders(), "");
    if (asked) {
      say(2, Kind::kRoom, 0);
      pass(milliseconds(1));
    } else {
      tell_steps(10);
    }
    EXPECT_EQ(orders(), "0:room2 2:room2");
  }
}

TEST_F(ElasticHostsTest, NeverWithFewerThanTheLeast) {
  begin_elastic({2, 3}, 0);
  shrink();
  pass_with(kLease, {0});
  EXPECT_EQ(orders(), "0:end2");
  ended(0, 2, {.exit_code = 1, .why = kOrdered});
  pass_with(options_.host_wait + milliseconds(500), {0});
  ASSERT_TRUE(coordinator_->end());
  EXPECT_EQ(coordinator_->end()->exit_code, 69);
}

// A rank is lost while all stop to make room: that is a loss like any other.
TEST_F(ElasticHostsTest, ALossWhileTheRanksStopIsALoss) {
  shrink();
  EXPECT_EQ(join(1, "again"), "");
  tell_steps(6);
  tell_steps(7);
  (void)orders();
  ended(2, 2, killed(1, "rank 1 was killed"));
  ended(0, 2, {.exit_code = 128 + SIGUSR2});
  pass(milliseconds(1));
  EXPECT_EQ(losses_.size(), 2U);
  EXPECT_EQ(orders(), "0:end2 0:prepare3 2:prepare3 1:prepare3");
}

TEST_F(ElasticHostsTest, ASignalWhileTheRanksStopEndsTheRun) {
  shrink();
  EXPECT_EQ(join(1, "again"), "");
  tell_steps(6);
  tell_steps(7);
  for (const int host : {0, 2}) ended(host, 2, {.exit_code = 85});
  pass(milliseconds(1));
  ASSERT_TRUE(coordinator_->end());
  EXPECT_EQ(coordinator_->end()->exit_code, 85);
}

TEST_F(ElasticHostsTest, AnotherCoordinatorGoesOnWithFewerHosts) {
  shrink();
  const CoordinatorState state = kept_;
  coordinator_.emplace(options_, state, now_);
  EXPECT_EQ(join(0, "first", 2, kRun), "");
  EXPECT_EQ(join(2, "first", 2, kRun), "");
  pass(milliseconds(1));
  EXPECT_EQ(orders(), "");
  EXPECT_EQ(join(1, "again"), "");
  tell_steps(6);
  tell_steps(7);
  EXPECT_EQ(orders(), "0:room2 2:room2");
}

}  // namespace
}  // namespace tessera
