// What a plan says of failures, beside what the calculator says and what a checkpoint holds.
#include "plan/failure_plan.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/message_of.h"
#include "cost/explain/topic.h"
#include "cost/hardware/catalogue.h"
#include "plan/plan.h"
#include "plan/report/training.h"

namespace tessera {
namespace {

using testing::message_of;

constexpr int64_t kParameters = 405'000'000'000;

RunSpec bf16_run() {
  RunSpec spec;
  spec.train.dtype = DType::kBF16;
  return spec;
}

FailurePlan planned(const FailureFlags& flags, const std::string& cluster = "h100-16384",
                    double step_s = 5) {
  std::vector<Guess> guesses;
  return plan_failures(bf16_run(), kParameters, find_cluster(cluster), step_s, flags, guesses);
}

TEST(FailurePlanTest, SaysWhatTheCalculatorSays) {
  const FailurePlan plan =
      planned({.mtbf_device = "50000h", .save = "30s", .restart = "5min"}, "h100-16384", 1);
  const Explanation explained = explain(
      find_topic("failures"),
      {{"devices", "16384"}, {"mtbf-device", "50000h"}, {"save", "30s"}, {"restart", "5min"}});
  EXPECT_DOUBLE_EQ(plan.model.mtbf, explained.value("mtbf"));
  EXPECT_NEAR(plan.interval_s, explained.value("best"), 0.5) << "whole steps of a second";
  EXPECT_NEAR(plan.goodput, explained.value("goodput"), 1e-6);
  EXPECT_EQ(plan.model.write, 0) << "who says --save means all of it";
}

TEST(FailurePlanTest, WhatNobodySaidIsGuessedAndNamed) {
  std::vector<Guess> guesses;
  const Cluster cluster = find_cluster("h100-64");
  const FailurePlan plan = plan_failures(bf16_run(), 8'000'000'000, cluster, 2, {}, guesses);
  ASSERT_EQ(guesses.size(), 3U);
  EXPECT_NE(guesses[0].taken.find("--mtbf-device"), std::string::npos);
  EXPECT_NE(guesses[1].taken.find("96 GB"), std::string::npos) << guesses[1].taken;
  EXPECT_NE(guesses[2].taken.find("--restart"), std::string::npos);
  EXPECT_EQ(plan.checkpoint_bytes, 96'000'000'000);
  EXPECT_DOUBLE_EQ(plan.model.write, 96.0 / 8) << "8 nodes at 1 GB/s";
  EXPECT_DOUBLE_EQ(plan.model.stall, 96.0 / 64 / 10);
  EXPECT_GE(plan.interval_s + 1, plan.model.write) << "not before the one before is written";
  guesses.clear();
  plan_failures(bf16_run(), 1, cluster, 2, {.mtbf_device = "1h", .save = "1s", .restart = "1s"},
                guesses);
  EXPECT_TRUE(guesses.empty());
}

TEST(FailurePlanTest, TheClustersStorageSaysHowLongASaveTakes) {
  std::vector<Guess> guesses;
  Cluster cluster = find_cluster("h100-64");
  cluster.storage_bandwidth = {0.5e9, Provenance::kMeasured, "fio"};
  RunSpec spec = bf16_run();
  EXPECT_DOUBLE_EQ(price_failures(spec, 8'000'000'000, cluster, {}, guesses).model.write, 3);
  spec.checkpoint.async = false;
  const FailurePlan waiting = price_failures(spec, 8'000'000'000, cluster, {}, guesses);
  EXPECT_DOUBLE_EQ(waiting.model.stall, 3) << "steps wait for all of it";
  EXPECT_EQ(waiting.model.write, 0);
}

TEST(FailurePlanTest, MistakesNameTheFlag) {
  EXPECT_NE(message_of<ConfigError>([] { planned({.mtbf_device = "0"}); }).find("--mtbf-device"),
            std::string::npos);
  EXPECT_NE(message_of<ConfigError>([] { planned({.save = "-1s"}); }).find("--save is \"-1s\""),
            std::string::npos);
  EXPECT_NE(message_of<ConfigError>([] { planned({.restart = "soon"}); }).find("--restart"),
            std::string::npos);
}

TEST(FailurePlanTest, ARunThatNeverEndsSaysSo) {
  EXPECT_FALSE(planned({}).never_ends());
  EXPECT_TRUE(planned({.mtbf_device = "10h", .restart = "1h"}).never_ends());
}

TEST(FailurePlanTest, DaysAreThoseOfAPlanOverItsGoodput) {
  Plan plan;
  plan.spec = bf16_run();
  plan.spec.train.global_batch = 100;
  plan.spec.train.seq_len = 1000;
  plan.tokens = 1'000'000'000;
  plan.step.emplace();
  plan.step->cluster = find_cluster("h100-8");
  plan.step->estimate.time.step_s = 10;
  plan.failures.emplace();
  plan.failures->model.mtbf = 1000;
  plan.failures->goodput = 0.8;
  EXPECT_DOUBLE_EQ(training_of(plan).days, 1e5 / 86400);
  const auto with = training_with_failures(plan);
  ASSERT_TRUE(with.has_value());
  EXPECT_DOUBLE_EQ(with->training.days, 1.25 * training_of(plan).days);
  EXPECT_DOUBLE_EQ(with->training.usd, 1.25 * training_of(plan).usd);
  EXPECT_DOUBLE_EQ(with->failures, 125);
  plan.failures->goodput = 0;
  EXPECT_FALSE(training_with_failures(plan).has_value());
}

}  // namespace
}  // namespace tessera
