#include "train/session/spike_guard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace tessera {
namespace {

TrainSpec guarded() {
  TrainSpec train;
  train.skip_spikes = true;
  train.spike_norm = 3;
  train.spike_loss = 2;
  train.spike_window = 2;
  train.spike_limit = 2;
  return train;
}

StepOutcome outcome(double loss, double norm) {
  StepOutcome result;
  result.loss = loss;
  result.grad_norm = norm;
  return result;
}

TEST(SpikeGuard, LooksAtMultiplesOfTheMeans) {
  SpikeGuard guard(guarded());
  StepParams params;
  guard.after_update(outcome(4, 1));
  guard.apply_to(params);
  EXPECT_EQ(params.most_norm, INFINITY);  // the window is not full
  guard.after_update(outcome(2, 3));
  guard.apply_to(params);
  EXPECT_EQ(params.most_norm, 6);  // three times the mean of 1 and 3
  EXPECT_EQ(params.most_loss, 6);  // twice that of 4 and 2
  EXPECT_EQ(guard.reason(params, outcome(6, 6)), "");
  EXPECT_EQ(guard.reason(params, outcome(6, 7)),
            "the norm of the gradient, 7, is above 3 times its mean of 2");
  EXPECT_EQ(guard.reason(params, outcome(6.5, 6)), "the loss, 6.5, is above 2 times its mean of 3");
  EXPECT_EQ(guard.reason(params, outcome(NAN, 1)),
            "the loss is nan and the norm of the gradient 1");
  // Then a value counts for half: (2 + 4) / 2.
  guard.after_update(outcome(3, 4));
  guard.apply_to(params);
  EXPECT_EQ(params.most_norm, 9);
  // A spike counts as the limit: (3 + 9) / 2, and a loss that is none as it is: (3 + 5) / 2.
  guard.after_skip(params, outcome(5, 1000));
  guard.apply_to(params);
  EXPECT_EQ(params.most_norm, 18);
  EXPECT_EQ(params.most_loss, 8);
}

TEST(SpikeGuard, SkippedStepsAreNoUpdatesAndEndARunWhenTheyFollowEachOther) {
  SpikeGuard guard(guarded());
  const auto skip = [&] { guard.after_skip({}, outcome(NAN, 1)); };
  skip();
  EXPECT_FALSE(guard.gives_up());
  guard.after_update(outcome(1, 1));
  skip();
  EXPECT_FALSE(guard.gives_up());
  skip();
  EXPECT_TRUE(guard.gives_up());
  EXPECT_EQ(guard.skipped(), 3);
  StepParams params;
  params.step = 9;
  guard.apply_to(params);
  EXPECT_EQ(params.step, 6);
}

TEST(SpikeGuard, IsOffUnlessAskedFor) {
  SpikeGuard guard{TrainSpec()};
  for (int i = 0; i < 100; ++i) guard.after_update(outcome(1, 1));
  StepParams params;
  guard.apply_to(params);
  EXPECT_EQ(params.most_norm, INFINITY);
  EXPECT_EQ(guard.reason(params, outcome(NAN, NAN)), "");
}

// Through the text of a checkpoint, in the middle of a row of skipped steps.
TEST(SpikeGuard, GoesOnFromWhatWasSaved) {
  SpikeGuard guard(guarded());
  StepParams params;
  for (const double x : {0.1, 1.0 / 3, 0.7}) guard.after_update(outcome(x, 2 * x));
  guard.apply_to(params);
  guard.after_skip(params, outcome(50, 60));
  SpikeGuard again(guarded());
  again.restore(nlohmann::json::parse(guard.state().dump()));
  StepParams mine, theirs;
  again.apply_to(mine);
  guard.apply_to(theirs);
  EXPECT_EQ(mine.most_norm, theirs.most_norm);
  EXPECT_EQ(mine.most_loss, theirs.most_loss);
  EXPECT_EQ(again.skipped(), 1);
  again.after_skip(mine, outcome(50, 60));
  EXPECT_TRUE(again.gives_up());
}

}  // namespace
}  // namespace tessera
