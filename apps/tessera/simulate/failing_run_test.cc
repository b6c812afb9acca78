// `plan --tokens` and `simulate --mtbf`: what failures cost a run, as it is asked and answered.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "asked_words.h"
#include "base/testing/test_folder.h"

namespace tessera {
namespace {

using testing::contains;
using testing::json_of;
using testing::refusal_of_command;
using testing::Words;
using testing::operator+;

const Words kPlan = {"plan", "--model",        "llama-3-8b", "--cluster", "h100-64", "--tp",
                     "8",    "--global-batch", "512",        "--tokens",  "1T"};
const Words kMonth = {"simulate", "--model",        "llama-3-8b", "--cluster", "h100-1024", "--tp",
                      "8",        "--global-batch", "1024",       "--mtbf",    "5000h"};

TEST(PlannedFailures, DaysWithFailuresAreBesideThoseWithout) {
  const nlohmann::json training = json_of(kPlan).at("training");
  const nlohmann::json& with = training.at("with_failures");
  const double goodput = with.at("goodput");
  EXPECT_GT(goodput, 0.9);
  EXPECT_LT(goodput, 1);
  EXPECT_NEAR(with.at("days").get<double>() * goodput, training.at("days").get<double>(), 1e-9);
  EXPECT_NEAR(with.at("usd").get<double>() * goodput, training.at("usd").get<double>(), 1e-3);
  EXPECT_EQ(with.at("mtbf_s").get<double>() * 64, with.at("mtbf_device_s").get<double>());
  const Ended text = run_in_process(kPlan);
  EXPECT_TRUE(contains(text.out, "with failures: ")) << text.out;
  EXPECT_TRUE(contains(text.out, "time between failures of a device: 50,000 hours")) << text.out;
  EXPECT_TRUE(contains(text.out, "(--save)")) << text.out;
  EXPECT_TRUE(contains(text.out, "(--restart)")) << text.out;
}

TEST(PlannedFailures, FlagsTakeThePlaceOfGuesses) {
  const Words said = {"--mtbf-device", "1000h", "--save", "60s", "--restart", "30min"};
  const nlohmann::json plan = json_of(kPlan + said);
  const nlohmann::json& with = plan.at("training").at("with_failures");
  EXPECT_EQ(with.at("mtbf_device_s"), 3'600'000);
  EXPECT_EQ(with.at("save_s"), 60);
  EXPECT_EQ(with.at("write_s"), 0);
  EXPECT_EQ(with.at("restart_s"), 1800);
  for (const nlohmann::json& guess : plan.at("guesses")) {
    EXPECT_FALSE(contains(guess.dump(), "--restart")) << guess;
  }
  const nlohmann::json never =
      json_of(kPlan + Words{"--mtbf-device", "1h", "--restart", "1h"}).at("training");
  EXPECT_FALSE(never.at("with_failures").contains("days"));
  EXPECT_TRUE(contains(run_in_process(kPlan + Words{"--mtbf-device", "1h", "--restart", "1h"}).out,
                       "with failures: never"));
}

TEST(PlannedFailures, FlagsThatSayNothingAreRefused) {
  const Words plan = {"plan", "--model", "llama-3-8b", "--cluster", "h100-64"};
  EXPECT_TRUE(contains(refusal_of_command(plan + Words{"--restart", "1h"}), "add --tokens"));
  EXPECT_TRUE(contains(refusal_of_command(plan + Words{"--save", "1s", "--emit", "megatron"}),
                       "leave out --vary and --emit"));
  EXPECT_TRUE(
      contains(refusal_of_command(kPlan + Words{"--save", "often"}), "--save is \"often\""));
}

TEST(SimulatedFailures, AMonthAddsUp) {
  const nlohmann::json month = json_of(kMonth);
  EXPECT_EQ(month.at("kind"), "failing_run");
  EXPECT_GT(month.at("failures"), 50);
  double sum = 0;
  for (const auto& [phase, seconds] : month.at("seconds").items()) sum += seconds.get<double>();
  EXPECT_NEAR(sum, 30 * 86400, 1e-3);
  const double goodput = month.at("goodput"), formula = month.at("goodput_by_formula");
  EXPECT_NEAR(month.at("seconds").at("training").get<double>() / sum, goodput, 1e-9);
  EXPECT_NEAR(goodput, formula, 6 / std::sqrt(month.at("failures").get<double>()) * (1 - formula));
  const double steps = std::floor(sum * goodput / month.at("step_s").get<double>());
  EXPECT_NEAR(month.at("tokens").get<double>(), steps * 1024 * 4096, 1024 * 4096 * 1.5);
  double at = 0;
  for (const nlohmann::json& span : month.at("spans")) {
    EXPECT_NEAR(span.at("begin_s").get<double>(), at, 1e-6);
    at = span.at("end_s");
  }
  EXPECT_NEAR(at, 30 * 86400, 1e-3);
}

TEST(SimulatedFailures, TheSeedDrawsTheFailures) {
  const std::string one = run_in_process(kMonth).out;
  EXPECT_EQ(run_in_process(kMonth + Words{"--seed", "1"}).out, one);
  EXPECT_NE(run_in_process(kMonth + Words{"--seed", "2"}).out, one);
}

TEST(SimulatedFailures, FewerSparesAreWaitedFor) {
  const nlohmann::json none = json_of(kMonth + Words{"--spares", "0"});
  const nlohmann::json many = json_of(kMonth + Words{"--spares", "100"});
  EXPECT_GT(none.at("seconds").at("waiting").get<double>(), 10 * 86400);
  EXPECT_EQ(many.at("seconds").at("waiting"), 0);
  EXPECT_FALSE(none.contains("goodput_by_formula"));
  EXPECT_LT(none.at("goodput"), many.at("goodput"));
}

TEST(SimulatedFailures, SavesComeAsOftenAsIsSaid) {
  const nlohmann::json steps = json_of(kMonth + Words{"--save-every", "100"});
  EXPECT_EQ(steps.at("save_every_steps"), 100);
  const nlohmann::json time = json_of(kMonth + Words{"--save-every", "2h", "--save", "10min"});
  EXPECT_NEAR(time.at("save_every_s").get<double>(), 7200, time.at("step_s").get<double>());
  EXPECT_EQ(time.at("save_s"), 600);
  EXPECT_LT(time.at("goodput"), json_of(kMonth).at("goodput"));
}

TEST(SimulatedFailures, RunsThatAreSimulatedByStagesFailToo) {
  const nlohmann::json month =
      json_of({"simulate", "--recipe", "llama-3-405b-8k", "--mtbf", "50000h", "--days", "10"});
  EXPECT_GT(month.at("failures"), 20);
  EXPECT_GT(month.at("goodput"), 0.8);
}

TEST(SimulatedFailures, ThePictureSaysWhatItIsOf) {
  const testing::TestFolder folder;
  const std::string svg = folder.path("month.svg");
  ASSERT_EQ(run_in_process(kMonth + Words{"--svg", svg, "--spares", "2"}).code, 0);
  std::ifstream file(svg);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  for (const std::string part : {"30 days of ", "llama-3-8b", "1,024 x h100", "2 spares",
                                 "goodput ", ">day 30<", ">waiting "}) {
    EXPECT_TRUE(contains(text, part)) << part;
  }
}

TEST(SimulatedFailures, WhatDoesNotGoTogetherIsRefused) {
  const Words step = {"simulate", "--model", "llama-3-8b", "--cluster", "h100-64", "--tp", "8"};
  for (const Words& flag : {Words{"--spares", "1"}, Words{"--days", "3"}, Words{"--seed", "2"},
                            Words{"--save-every", "1h"}, Words{"--repair", "1h"}}) {
    EXPECT_TRUE(contains(refusal_of_command(step + flag), "add --mtbf")) << flag.front();
  }
  EXPECT_TRUE(contains(refusal_of_command(kMonth + Words{"--schedule-only"}), "leave out"));
  EXPECT_TRUE(contains(refusal_of_command(kMonth + Words{"--lost", "rank=0,at=0.5"}), "leave out"));
  EXPECT_TRUE(contains(refusal_of_command(kMonth + Words{"--trace", "x.json"}), "leave out"));
  EXPECT_TRUE(contains(refusal_of_command(kMonth + Words{"--csv", "x.csv"}), "leave out --mtbf"));
  EXPECT_TRUE(contains(refusal_of_command(kMonth + Words{"--days", "0"}), "--days is 0"));
  EXPECT_TRUE(
      contains(refusal_of_command(kMonth + Words{"--save-every", "0"}), "--save-every is \"0\""));
  EXPECT_TRUE(contains(refusal_of_command(step + Words{"--mtbf", "1s", "--days", "3000"}),
                       "are played; use fewer --days"));
  EXPECT_TRUE(contains(refusal_of_command(step + Words{"--mtbf", "x"}), "--mtbf is \"x\""));
}

}  // namespace
}  // namespace tessera
