#include "train/session/loss_scale.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tessera {
namespace {

TrainSpec half(double loss_scale, int64_t interval = 3, int64_t hysteresis = 2) {
  TrainSpec train;
  train.dtype = DType::kF16;
  train.loss_scale = loss_scale;
  train.loss_scale_interval = interval;
  train.loss_scale_hysteresis = hysteresis;
  return train;
}

TEST(LossScalerTest, OtherTypesHaveNoScale) {
  for (const DType type : {DType::kF32, DType::kF64, DType::kBF16}) {
    TrainSpec train = half(0);
    train.dtype = type;
    LossScaler scaler(train);
    for (int i = 0; i < 10; ++i) scaler.after_update();
    EXPECT_EQ(scaler.scale(), 1);
    EXPECT_FALSE(scaler.can_fall());
  }
}

TEST(LossScalerTest, GrowsAfterTheIntervalUpToWhatF16CanHold) {
  LossScaler scaler(half(0));
  EXPECT_EQ(scaler.scale(), kFirstLossScale);
  for (int i = 0; i < 2; ++i) scaler.after_update();
  EXPECT_EQ(scaler.scale(), kFirstLossScale);
  scaler.after_update();
  EXPECT_EQ(scaler.scale(), 2 * kFirstLossScale);
  for (int i = 0; i < 100; ++i) scaler.after_update();
  EXPECT_EQ(scaler.scale(), kMaxLossScale);
}

TEST(LossScalerTest, FallsFromTheSecondOverflowOnAndStartsCountingAgain) {
  LossScaler scaler(half(0));
  scaler.after_update();
  scaler.after_update();
  scaler.after_overflow();  // forgiven, but the count of clean steps is lost
  EXPECT_EQ(scaler.scale(), kFirstLossScale);
  scaler.after_update();
  EXPECT_EQ(scaler.scale(), kFirstLossScale);
  scaler.after_overflow();
  EXPECT_EQ(scaler.scale(), kFirstLossScale / 2);
  scaler.after_overflow();
  EXPECT_EQ(scaler.scale(), kFirstLossScale / 4);
  for (int i = 0; i < 3; ++i) scaler.after_update();
  EXPECT_EQ(scaler.scale(), kFirstLossScale / 2);
  scaler.after_overflow();  // forgiven again after a growth
  EXPECT_EQ(scaler.scale(), kFirstLossScale / 2);
  EXPECT_EQ(scaler.skipped(), 4);
}

TEST(LossScalerTest, NeverFallsBelowOne) {
  LossScaler scaler(half(0, 3, 1));
  for (double scale = kFirstLossScale; scale > 1; scale /= 2) {
    EXPECT_TRUE(scaler.can_fall());
    scaler.after_overflow();
  }
  EXPECT_EQ(scaler.scale(), 1);
  EXPECT_FALSE(scaler.can_fall());
}

TEST(LossScalerTest, AFixedScaleStays) {
  LossScaler scaler(half(256));
  EXPECT_FALSE(scaler.can_fall());
  for (int i = 0; i < 10; ++i) scaler.after_update();
  scaler.after_overflow();
  EXPECT_EQ(scaler.scale(), 256);
}

TEST(LossScalerTest, SkippedStepsDoNotCountAsUpdates) {
  LossScaler scaler(half(0));
  scaler.after_overflow();
  StepParams params;
  params.step = 5;
  scaler.apply_to(params);
  EXPECT_EQ(params.step, 4);
  EXPECT_EQ(params.loss_scale, kFirstLossScale);
}

// Saved at any moment, it does what it would have done.
TEST(LossScalerTest, GoesOnFromWhatWasSaved) {
  const auto event = [](LossScaler& scaler, int i) {
    if (i % 5 == 4 || i % 7 == 6) {
      scaler.after_overflow();
    } else {
      scaler.after_update();
    }
  };
  for (int saved = 0; saved < 20; ++saved) {
    LossScaler scaler(half(0)), again(half(0));
    for (int i = 0; i < saved; ++i) event(scaler, i);
    again.restore(nlohmann::json::parse(scaler.state().dump()));
    for (int i = saved; i < 40; ++i) {
      EXPECT_EQ(again.scale(), scaler.scale());
      EXPECT_EQ(again.skipped(), scaler.skipped());
      event(scaler, i);
      event(again, i);
    }
  }
}

}  // namespace
}  // namespace tessera
