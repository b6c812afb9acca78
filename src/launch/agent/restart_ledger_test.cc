#include "launch/agent/restart_ledger.h"

#include <gtest/gtest.h>

#include <csignal>

namespace tessera {
namespace {

using Answer = RestartLedger::Answer;

RankLoss killed(int rank, int64_t step, RunSection section = RunSection::kStep) {
  return {.rank = rank,
          .exit = {.code = 0, .signal = SIGKILL},
          .section = section,
          .step = step,
          .curable = true};
}

TEST(RestartLedgerTest, CountsDown) {
  RestartLedger ledger(2);
  EXPECT_EQ(ledger.history(), "");
  EXPECT_EQ(ledger.after(killed(1, 5)), Answer::kRestart);
  EXPECT_EQ(ledger.left(), 1);
  EXPECT_EQ(ledger.after(killed(0, 7, RunSection::kSave)), Answer::kRestart);
  EXPECT_EQ(ledger.after(killed(0, 9)), Answer::kEnd);
  EXPECT_EQ(ledger.history(),
            "; started again 2 times before, after rank 1 was killed by SIGKILL in step 5, rank 0 "
            "was killed by SIGKILL in the end of step 7");
}

TEST(RestartLedgerTest, WhatWouldFailAgainEnds) {
  RestartLedger ledger(2);
  RankLoss loss = killed(1, 5);
  loss.curable = false;
  EXPECT_EQ(ledger.after(loss), Answer::kEnd);
  EXPECT_EQ(ledger.left(), 2);
}

TEST(RestartLedgerTest, TheSameStepThreeTimesIsPoison) {
  RestartLedger ledger(9);
  EXPECT_EQ(ledger.after(killed(2, 7)), Answer::kRestart);
  EXPECT_EQ(ledger.after(killed(2, 6)), Answer::kRestart);
  EXPECT_EQ(ledger.after(killed(2, 7)), Answer::kRestart);
  EXPECT_EQ(ledger.after(killed(0, 7)), Answer::kPoison);
  EXPECT_EQ(ledger.poison(7, nullptr),
            "step 7 has failed 3 times, on ranks 2, 2 and 0, and is not tried again");
  EXPECT_EQ(ledger.poison(7, [](int64_t step) { return fmt::format("sample {}", step); }),
            "step 7 has failed 3 times, on ranks 2, 2 and 0 (sample 7), and is not tried again");
}

// Nothing is known of a step that nobody came to.
TEST(RestartLedgerTest, TheBeginningIsNoStep) {
  RestartLedger ledger(4);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(ledger.after(killed(0, 0, RunSection::kSetup)), Answer::kRestart);
  }
  EXPECT_EQ(ledger.after(killed(0, 0, RunSection::kSetup)), Answer::kEnd);
}

// What is lost while the run recovers has the cause of the first loss, unless it is lost for ever.
TEST(RestartLedgerTest, ALossWhileTheRunRecoversUsesUpNoRestart) {
  RestartLedger ledger(2);
  const auto lost = [&](int generation, int64_t step) {
    RankLoss loss = killed(0, step, step == 0 ? RunSection::kSetup : RunSection::kStep);
    loss.generation = generation;
    return ledger.after(loss);
  };
  EXPECT_EQ(lost(1, 5), Answer::kRestart);
  EXPECT_EQ(lost(2, 0), Answer::kRestart);
  EXPECT_EQ(lost(3, 0), Answer::kRestart);
  EXPECT_EQ(ledger.left(), 1);
  EXPECT_EQ(lost(4, 7), Answer::kRestart);  // a cause of its own
  EXPECT_EQ(ledger.left(), 0);
  EXPECT_EQ(lost(5, 0), Answer::kRestart);
  EXPECT_EQ(lost(6, 0), Answer::kRestart);
  EXPECT_EQ(lost(7, 0), Answer::kEnd);
}

// A generation that began for another reason, to grow, recovers from nothing.
TEST(RestartLedgerTest, ALossAtTheBeginningOfAGenerationThatGrewCounts) {
  RestartLedger ledger(1);
  EXPECT_EQ(ledger.after(killed(0, 5)), Answer::kRestart);
  RankLoss loss = killed(0, 0, RunSection::kSetup);
  loss.generation = 3;  // the second one has ended well
  EXPECT_EQ(ledger.after(loss), Answer::kEnd);
}

// Steps that failed are compared with steps, not with the beginning of a generation.
TEST(RestartLedgerTest, ALossAtTheBeginningGivesNoRestartsBack) {
  RestartLedger ledger(1);
  EXPECT_EQ(ledger.after(killed(0, 2000)), Answer::kRestart);
  RankLoss loss = killed(0, 0, RunSection::kSetup);
  loss.generation = 2;
  EXPECT_EQ(ledger.after(loss), Answer::kRestart);
  EXPECT_EQ(ledger.after(killed(0, 2001)), Answer::kEnd);
}

TEST(RestartLedgerTest, GoodStepsGiveTheRestartsBack) {
  RestartLedger ledger(1);
  EXPECT_EQ(ledger.after(killed(0, 10)), Answer::kRestart);
  EXPECT_EQ(ledger.after(killed(0, 11 + kGoodSteps)), Answer::kRestart);
  EXPECT_EQ(ledger.after(killed(0, 11 + 2 * kGoodSteps)), Answer::kEnd);
}

TEST(RestartLedgerTest, AnotherLedgerGoesOnWithRestartsAndFailedSteps) {
  RestartLedger first(3);
  EXPECT_EQ(first.after(killed(2, 7)), Answer::kRestart);
  EXPECT_EQ(first.after(killed(1, 7)), Answer::kRestart);
  RestartLedger second(3, first.past());
  EXPECT_EQ(second.left(), 1);
  EXPECT_EQ(second.after(killed(0, 7)), Answer::kPoison);
  EXPECT_EQ(second.poison(7, nullptr),
            "step 7 has failed 3 times, on ranks 2, 1 and 0, and is not tried again");
  RestartLedger fewer(1, first.past());
  EXPECT_EQ(fewer.left(), 0);
  EXPECT_EQ(fewer.after(killed(0, 8)), Answer::kEnd);
  EXPECT_NE(fewer.history().find("started again 2 times before"), std::string::npos);
}

}  // namespace
}  // namespace tessera
