// What people type to plan serving.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "asked_words.h"

namespace tessera {
namespace {

using testing::contains;
using testing::json_of;
using testing::refusal_of_command;
using testing::Words;
using testing::operator+;

const Words kServe = {"plan", "--serve", "llama-3-70b", "--cluster", "h100-8"};

TEST(PlanServe, MeshAndFlagsSayTheSame) {
  const nlohmann::json mesh = json_of(kServe + Words{"--mesh", "tp=4,pp=2"});
  EXPECT_EQ(json_of(kServe + Words{"--tp", "4", "--pp", "2"}).dump(), mesh.dump());
  EXPECT_EQ(mesh.at("kind"), "serve_plan");
  EXPECT_EQ(mesh.at("fits"), true);
  // Keys and values of 40 layers, 2 of 8 heads of 128 columns, 16 tokens, in bf16.
  EXPECT_EQ(mesh.at("stages")[0].at("page_bytes").get<int64_t>() /
                mesh.at("stages")[0].at("layers").get<int64_t>(),
            2 * 2 * 128 * 16 * 2);
  int64_t total = 0;
  for (const nlohmann::json& stage : mesh.at("stages")) {
    const auto& memory = stage.at("memory_bytes");
    EXPECT_LE(memory.at("total"), mesh.at("limit").at("bytes"));
    total += stage.at("ranks").get<int64_t>() * memory.at("total").get<int64_t>();
  }
  EXPECT_EQ(mesh.at("total_bytes"), total);
}

TEST(PlanServe, LargeModelsOnManyRanksArePlanned) {
  const nlohmann::json plan = json_of({"plan", "--serve", "llama-3-405b", "--cluster", "h100-128",
                                       "--mesh", "tp=8,pp=16", "--max-context", "32k"});
  EXPECT_EQ(plan.at("mesh").at("ranks"), 128);
  const nlohmann::json& most = plan.at("cache").at("most_sequences");
  ASSERT_EQ(most.size(), 3U);  // 1k, 4k, 32k
  EXPECT_EQ(most[2].at("context"), 32768);
  EXPECT_EQ(most[2].at("sequences"), plan.at("cache").at("pages").get<int64_t>() / (32768 / 16));
}

TEST(PlanServe, KeyHeadsThatAreNotSplitAreWholeAndSaid) {
  const Words words = {"plan", "--serve", "llama-3-8b", "--cluster", "h100-16", "--mesh", "tp=16"};
  EXPECT_EQ(json_of(words).at("cache").at("kv_heads"), "whole");
  EXPECT_TRUE(contains(run_in_process(words).out, "tp=16 does not divide 8 key heads"));
}

TEST(PlanServe, CheckNamesChangesThatFit) {
  const Words words = kServe + Words{"--mesh", "tp=1"};
  const Ended checked = run_in_process(words + Words{"--check"});
  EXPECT_EQ(checked.code, 3);
  EXPECT_TRUE(contains(checked.err, "does not fit: rank 0 needs")) << checked.err;
  EXPECT_EQ(run_in_process(words).code, 0);
  const nlohmann::json plan = json_of(words);
  EXPECT_EQ(plan.at("fits"), false);
  ASSERT_FALSE(plan.at("changes").empty());
  for (const nlohmann::json& change : plan.at("changes")) {
    const auto value = change.at("value").get<std::string>();
    EXPECT_TRUE(contains(checked.err, value));
    const nlohmann::json changed =
        json_of(kServe + Words{change.at("flag").get<std::string>(), value});
    EXPECT_EQ(changed.at("fits"), true) << value;
    EXPECT_EQ(changed.at("cache").at("pages"), change.at("pages"));
  }
  // What is only a little too large is told a shorter context, and a smaller type.
  const nlohmann::json little = json_of({"plan", "--serve", "llama-3-8b", "--cluster", "h100-1",
                                         "--memory-gib", "31.5", "--dtype", "f32"});
  std::vector<std::string> flags;
  for (const nlohmann::json& change : little.at("changes")) flags.push_back(change.at("flag"));
  EXPECT_EQ(flags, (std::vector<std::string>{"--dtype", "--max-context"}));
}

TEST(PlanServe, FloorsAreBytesOverBandwidth) {
  const nlohmann::json plan =
      json_of({"plan", "--serve", "llama-3-8b", "--cluster", "h100-1", "--max-context", "2k"});
  const nlohmann::json& first = plan.at("decode_floor")[0];
  EXPECT_EQ(first.at("sequences"), 1);
  EXPECT_EQ(first.at("context"), 1024);
  // All weights but the table of the embedding, in bf16, and 1,024 tokens of the cache.
  const int64_t weights = 2 * (plan.at("model").at("parameters").get<int64_t>() - 128256 * 4096);
  const int64_t cache = 1024 * plan.at("cache").at("bytes_per_token").get<int64_t>();
  EXPECT_NEAR(first.at("bytes").get<double>(), static_cast<double>(weights + cache), 1e6);
  EXPECT_NEAR(first.at("step_s").get<double>(), first.at("bytes").get<double>() / 3.35e12, 1e-9);
}

TEST(PlanServe, PredictsNoLessThanTheFloor) {
  const nlohmann::json plan = json_of({"plan", "--serve", "llama-3-8b", "--cluster", "h100-8",
                                       "--mesh", "tp=2,pp=2", "--max-context", "4k"});
  const nlohmann::json& prediction = plan.at("prediction");
  EXPECT_EQ(prediction.at("by"), "constants");
  ASSERT_EQ(prediction.at("tpot").size(), plan.at("decode_floor").size());
  for (size_t i = 0; i < prediction.at("tpot").size(); ++i) {
    const nlohmann::json& step = prediction.at("tpot")[i];
    const nlohmann::json& floor = plan.at("decode_floor")[i];
    EXPECT_EQ(step.at("sequences"), floor.at("sequences"));
    EXPECT_EQ(step.at("context"), floor.at("context"));
    EXPECT_GT(step.at("step_s"), floor.at("slowest_stage_s"));
  }
  ASSERT_EQ(prediction.at("ttft").size(), 2U);  // 8k is longer than any sequence
  EXPECT_EQ(prediction.at("ttft")[1].at("prompt"), 2048);
  EXPECT_GT(prediction.at("ttft")[1].at("first_token_s"),
            prediction.at("ttft")[0].at("first_token_s"));
  // What has no rate there is not predicted, and the plan stands.
  const nlohmann::json wide = json_of({"plan", "--serve", "llama-3.2-1b", "--cluster", "h100-1",
                                       "--dtype", "f64", "--max-context", "1k"});
  EXPECT_TRUE(contains(wide.at("prediction").at("why_not"), "f64"));
  EXPECT_EQ(wide.at("fits"), true);
}

TEST(PlanServe, RefusesWhatIsNotItsOwn) {
  const auto refusal = [](const Words& words) { return refusal_of_command(words); };
  EXPECT_TRUE(contains(refusal(kServe + Words{"--tokens", "1T"}), "--tokens is of a run to train"));
  EXPECT_TRUE(contains(refusal(kServe + Words{"--dp", "2"}), "--dp is of a run to train"));
  EXPECT_TRUE(contains(refusal(kServe + Words{"--mesh", "tp=2,dp=2"}), "leave out dp"));
  EXPECT_TRUE(contains(refusal(kServe + Words{"--mesh", "tp=2", "--tp", "2"}), "keep one"));
  EXPECT_TRUE(contains(refusal(kServe + Words{"--tp", "16"}), "more than the 8 of cluster"));
  EXPECT_TRUE(contains(refusal(kServe + Words{"--tp", "0"}), "--tp is \"0\""));
  EXPECT_TRUE(contains(refusal(kServe + Words{"--dtype", "fp8"}), "serving has bf16, f32 and f64"));
  EXPECT_TRUE(
      contains(refusal({"plan", "--serve", "lama-3-8b", "--cluster", "h100-8"}), "llama-3-8b"));
  EXPECT_TRUE(
      contains(refusal({"plan", "--model", "llama-3-8b", "--cluster", "h100-8", "--page", "32"}),
               "--page is of a plan to serve"));
  EXPECT_TRUE(contains(refusal(kServe + Words{"--page", "12"}), "power of two"));
  EXPECT_TRUE(contains(
      refusal({"plan", "--serve", TESSERA_SOURCE_DIR "/tests/data/hf/gpt2", "--max-context", "1M"}),
      "was made for"));
}

}  // namespace
}  // namespace tessera
