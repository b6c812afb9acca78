// Which generation starts when, and what a coordinator that is lost leaves behind.
#include "launch/testing/coordinator_play.h"

namespace tessera {
namespace {

using std::chrono::milliseconds;
using testing::CoordinatorTest;
using testing::kLease;
using testing::kRun;
using Kind = ControlKind;

TEST_F(CoordinatorTest, StartsWhenAllHostsAreThereAndEndsWhenAllHaveEnded) {
  EXPECT_EQ(join(1), "");
  pass(milliseconds(1));
  EXPECT_EQ(orders(), "");
  EXPECT_EQ(join(0), "");
  pass(milliseconds(1));
  EXPECT_EQ(orders(), "0:prepare1 1:prepare1");
  EXPECT_EQ(kept_.generation, 1U);  // before anybody heard of it
  ready(0, 1);
  EXPECT_EQ(orders(), "");
  ready(1, 1);
  EXPECT_EQ(orders(), "0:start1 1:start1");
  ended(0, 1, {});
  EXPECT_FALSE(coordinator_->end());
  ended(1, 1, {});
  ASSERT_TRUE(coordinator_->end());
  EXPECT_EQ(coordinator_->end()->exit_code, 0);
  EXPECT_EQ(orders(), "0:finish1 1:finish1");
}

TEST_F(CoordinatorTest, ALostRankEndsAllAndTheHostThatHasItIsBelieved) {
  run();
  // The neighbour notices first, and knows less.
  ended(0, 1, killed(0, "rank 3 (pid 9 on b) is gone"));
  EXPECT_EQ(orders(), "1:end1");
  pass(milliseconds(1));
  EXPECT_EQ(orders(), "");
  ended(1, 1, killed(3, "rank 3 (pid 9) was killed by SIGKILL"));
  pass(milliseconds(1));
  ASSERT_EQ(losses_.size(), 1U);
  EXPECT_EQ(losses_[0].rank, 3);
  EXPECT_EQ(losses_[0].reason, "rank 3 (pid 9) was killed by SIGKILL");
  EXPECT_EQ(orders(), "0:prepare2 1:prepare2");
}

TEST_F(CoordinatorTest, Row22ASilentHostIsLostAfterItsLeaseAndNothingStartsBefore) {
  run();
  pass_with(kLease - milliseconds(500), {0});
  EXPECT_EQ(orders(), "");
  pass_with(milliseconds(500), {0});
  EXPECT_EQ(orders(), "0:end1");
  ended(0, 1, {.exit_code = 1, .why = GenerationReport::Why::kOrdered});
  pass(milliseconds(1));
  ASSERT_EQ(losses_.size(), 1U);
  EXPECT_EQ(losses_[0].verdict, Verdict::kPartitioned);
  EXPECT_EQ(losses_[0].rank, 2);
  EXPECT_EQ(orders(), "");  // one host is missing
  // It comes back with ranks that it has ended by itself, and hears how old they are.
  EXPECT_EQ(join(1, "first", 1, kRun), "");
  EXPECT_EQ(orders(), "");
  ended(1, 1, {.exit_code = 75, .why = GenerationReport::Why::kFenced});
  pass(milliseconds(1));
  EXPECT_EQ(losses_.size(), 1U);  // one silence is one loss
  EXPECT_EQ(orders(), "0:prepare2 1:prepare2");
}

TEST_F(CoordinatorTest, Row22ASpareHostTakesThePlace) {
  EXPECT_EQ(join(2), "");  // faster than the others
  pass(milliseconds(1));
  EXPECT_EQ(join(0), "");
  pass(milliseconds(1));
  EXPECT_EQ(orders(), "");
  EXPECT_EQ(join(1), "");
  pass(milliseconds(1));
  EXPECT_EQ(orders(), "0:prepare1 1:prepare1");
  for (const int host : {0, 1}) ready(host, 1);
  (void)orders();
  pass_with(kLease, {0, 2});
  EXPECT_EQ(orders(), "0:end1");
  ended(0, 1, {.exit_code = 1, .why = GenerationReport::Why::kOrdered});
  pass(milliseconds(1));
  EXPECT_EQ(orders(), "0:prepare2 2:prepare2");
  EXPECT_EQ(kept_.places, (std::vector<int>{0, 2}));
  // The zombie's words are answered, and change nothing.
  EXPECT_EQ(join(1, "first", 1, kRun), "");
  ended(1, 1, {});
  EXPECT_EQ(orders(), "1:stale2 1:stale2");
  EXPECT_FALSE(coordinator_->end());
}

TEST_F(CoordinatorTest, Row23AHostThatComesBackWithinItsLeaseGoesOn) {
  run();
  coordinator_->disconnected(1);
  pass_with(kLease - milliseconds(1'000), {0});
  EXPECT_EQ(join(1, "first", 1, kRun), "");
  pass_with(2 * kLease, {0, 1});
  EXPECT_EQ(orders(), "");
  EXPECT_TRUE(losses_.empty());
}

TEST_F(CoordinatorTest, WithoutEnoughHostsTheRunEndsWith69) {
  run();
  pass_with(kLease, {0});
  ended(0, 1, {.exit_code = 1, .why = GenerationReport::Why::kOrdered});
  pass_with(options_.host_wait, {0});
  EXPECT_FALSE(coordinator_->end());
  pass_with(milliseconds(500), {0});
  ASSERT_TRUE(coordinator_->end());
  EXPECT_EQ(coordinator_->end()->exit_code, 69);
  EXPECT_EQ(coordinator_->end()->message,
            "1 of 2 hosts are there: waited 60 s for host 1; start it, or a spare (--host-rank 2)");
}

TEST_F(CoordinatorTest, Row24ASecondClaimOfALiveHostIsRefused) {
  run();
  EXPECT_EQ(join(1, "second"),
            "host 1 is there already: give every agent a --host-rank of its own");
  EXPECT_EQ(join(1, "second", 1, 77), "it belongs to another run");
  EXPECT_EQ(join(-1, "second"), "host -1: hosts go from 0 to 4095");
  EXPECT_EQ(orders(), "");
  pass_with(kLease, {0, 1});
  EXPECT_TRUE(losses_.empty());
}

TEST_F(CoordinatorTest, Row24WordsOfAnOlderGenerationAreAnsweredAndDropped) {
  run();
  for (const int host : {0, 1}) ended(host, 1, killed(2 * host, "it was killed"));
  pass(milliseconds(1));
  (void)orders();
  for (const int host : {0, 1}) ready(host, 2);
  (void)orders();
  ended(1, 1, killed(2, "again"));
  EXPECT_EQ(orders(), "1:stale2");
  ready(1, 1);
  EXPECT_EQ(orders(), "1:stale2");
  EXPECT_EQ(losses_.size(), 1U);
}

TEST_F(CoordinatorTest, Row9AnotherCoordinatorGoesOnWithRanksThatStillRun) {
  begin({.run = kRun, .generation = 3, .places = {0, 1}, .opened = true});
  EXPECT_EQ(join(0, "first", 3, kRun), "");
  pass(milliseconds(1));
  EXPECT_EQ(join(1, "first", 3, kRun), "");
  pass_with(2 * kLease, {0, 1});
  EXPECT_EQ(orders(), "");
  for (const int host : {0, 1}) ended(host, 3, {});
  EXPECT_EQ(coordinator_->end()->exit_code, 0);
}

TEST_F(CoordinatorTest, Row9AfterACoordinatorThatTookItsRanksAlongTheGenerationGrows) {
  begin({.run = kRun, .generation = 3, .places = {0, 1}, .opened = true});
  EXPECT_EQ(join(0, "second", 0), "");
  EXPECT_EQ(join(1, "first", 3, kRun), "");
  pass(milliseconds(1));
  EXPECT_EQ(orders(), "1:end3");
  ended(1, 3, {.exit_code = 1, .why = GenerationReport::Why::kOrdered});
  pass_with(kLease, {0, 1});
  EXPECT_EQ(orders(), "0:prepare4 1:prepare4");
  EXPECT_EQ(losses_.size(), 1U);
}

TEST_F(CoordinatorTest, Row9NothingStartsBeforeTheLeasesOfAFormerCoordinatorAreOver) {
  begin({.run = kRun, .generation = 3, .places = {0, 1}});
  EXPECT_EQ(join(0, "second", 0), "");
  EXPECT_EQ(join(2, "spare", 0), "");
  pass_with(kLease - milliseconds(500), {0, 2});
  EXPECT_EQ(orders(), "");
  pass_with(milliseconds(500), {0, 2});
  pass(milliseconds(1));
  EXPECT_EQ(orders(), "0:prepare4 2:prepare4");
}

TEST_F(CoordinatorTest, ACoordinatorThatAnotherOneHasOvertakenEnds) {
  run();
  EXPECT_EQ(join(2, "spare", 9, kRun), "its generation is newer than this coordinator");
  ASSERT_TRUE(coordinator_->end());
  EXPECT_EQ(coordinator_->end()->exit_code, 75);
}

TEST_F(CoordinatorTest, ASignalEndsTheRunWithItsCode) {
  run();
  ended(1, 1, {.exit_code = 143});
  EXPECT_EQ(orders(), "0:end1");
  ended(0, 1, {.exit_code = 143});
  pass(milliseconds(1));
  ASSERT_TRUE(coordinator_->end());
  EXPECT_EQ(coordinator_->end()->exit_code, 143);
  EXPECT_TRUE(losses_.empty());
}

TEST_F(CoordinatorTest, Row9WhoeverGoesOnAfterAnEndInOrderWaitsForNobodysLease) {
  run();
  for (const int host : {0, 1}) ended(host, 1, {.exit_code = 143});
  pass(milliseconds(1));
  ASSERT_TRUE(coordinator_->end());
  EXPECT_TRUE(kept_.places.empty());
  begin(kept_);
  for (const int host : {0, 1}) EXPECT_EQ(join(host), "");
  pass(milliseconds(1));
  EXPECT_EQ(orders(), "0:prepare2 1:prepare2");
  EXPECT_TRUE(losses_.empty());
}

TEST_F(CoordinatorTest, OutOfRestartsTheLastFailureIsTheEnd) {
  run();
  for (uint64_t generation = 1;; ++generation) {
    for (const int host : {0, 1}) ended(host, generation, killed(2 * host, "it was killed"));
    pass(milliseconds(1));
    if (coordinator_->end()) break;
    (void)orders();
    for (const int host : {0, 1}) ready(host, generation + 1);
    (void)orders();
  }
  EXPECT_EQ(coordinator_->end()->exit_code, 1);
  EXPECT_EQ(losses_.size(), 3U);
  EXPECT_NE(coordinator_->end()->message.find("started again 2 times before"), std::string::npos);
}

TEST_F(CoordinatorTest, AMistakeThatAllWouldFindAgainEndsTheRun) {
  run();
  ended(0, 1, {.exit_code = 2, .message = "no such file"});
  ASSERT_TRUE(coordinator_->end());
  EXPECT_EQ(coordinator_->end()->exit_code, 2);
  EXPECT_EQ(coordinator_->end()->message, "no such file");
}

// ---- what outlives a coordinator

TEST_F(CoordinatorTest, Row9AnotherCoordinatorCountsRestartsOn) {
  run();
  for (const int host : {0, 1}) ended(host, 1, killed(2 * host, "it was killed"));
  pass(milliseconds(1));
  EXPECT_EQ(kept_.failures.used, 1);
  begin(kept_);
  for (const int host : {0, 1}) EXPECT_EQ(join(host, "first", 0, kRun), "");
  pass_with(kLease, {0, 1});
  for (uint64_t generation = coordinator_->state().generation; !coordinator_->end(); ++generation) {
    ASSERT_LT(generation, 9U);
    (void)orders();
    for (const int host : {0, 1}) ready(host, generation);
    for (const int host : {0, 1}) ended(host, generation, killed(2 * host, "it was killed"));
    pass(milliseconds(1));
  }
  EXPECT_EQ(coordinator_->end()->exit_code, 1);
  EXPECT_EQ(kept_.failures.used, 0);  // whoever starts the run again has all restarts
  EXPECT_NE(coordinator_->end()->message.find("started again "), std::string::npos);
}

TEST_F(CoordinatorTest, Row9TheLossThatWasCountedIsNotCountedAgain) {
  CoordinatorState before_next;
  options_.keep = [&](const CoordinatorState& now) {
    if (now.generation == 1 && now.failures.used == 1) before_next = now;
    kept_ = now;
  };
  coordinator_.emplace(options_, CoordinatorState{.run = kRun}, now_);
  run();
  for (const int host : {0, 1}) ended(host, 1, killed(2 * host, "it was killed"));
  pass(milliseconds(1));
  ASSERT_EQ(before_next.failures.used, 1);
  losses_.clear();
  begin(before_next);
  (void)orders();
  for (const int host : {0, 1}) EXPECT_EQ(join(host, "first", 0, kRun), "");
  pass(milliseconds(1));
  EXPECT_EQ(orders(), "0:prepare2 1:prepare2");
  EXPECT_TRUE(losses_.empty());
}

}  // namespace
}  // namespace tessera
