// Published recipes, and fp8, as commands take them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/testing/share.h"
#include "in_process.h"
#include "spec/catalogue/recipe_catalogue.h"

namespace tessera {
namespace {

using Words = std::vector<std::string>;

nlohmann::json answer(const Words& words) {
  const Ended ended = run_in_process(words);
  EXPECT_EQ(ended.code, 0) << fmt::format("{}\n{}", fmt::join(words, " "), ended.err);
  return ended.code == 0 ? nlohmann::json::parse(ended.out) : nlohmann::json();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(RecipeCommand, EveryRecipeIsPlannedBesideWhatWasPublished) {
  ASSERT_GE(recipe_names().size(), 7U);
  for (const std::string_view name : recipe_names()) {
    SCOPED_TRACE(name);
    const Recipe recipe = find_recipe(std::string(name));
    const nlohmann::json plan = answer({"plan", "--recipe", std::string(name), "--json"});
    const nlohmann::json& shown = plan.at("recipe");
    EXPECT_EQ(shown.at("source"), recipe.source);
    EXPECT_EQ(shown.at("planned").size() + (recipe.published.empty() ? 0 : 1),
              shown.at("published").size());
    const char* compared = shown.contains("planned_by_engine") ? "planned_by_engine" : "planned";
    for (const auto& [key, value] : shown.at(compared).items()) {
      // Within a factor of two: the same quantity in the same unit.
      const double ratio = value.get<double>() / shown.at("published").at(key).get<double>();
      EXPECT_GT(ratio, 0.5) << key;
      EXPECT_LT(ratio, 2.0) << key;
    }
  }
}

TEST(RecipeCommand, EveryRecipeIsSimulatedNearItsPlan) {
  for (const std::string_view name : testing::share_of(recipe_names(), 3)) {
    SCOPED_TRACE(name);
    const Words recipe = {"--recipe", std::string(name), "--json"};
    Words plan = {"plan"}, simulate = {"simulate"};
    plan.insert(plan.end(), recipe.begin(), recipe.end());
    simulate.insert(simulate.end(), recipe.begin(), recipe.end());
    const nlohmann::json simulated = answer(simulate);
    const double planned_s = answer(plan).at("time").at("step_s").get<double>();
    EXPECT_NEAR(simulated.at("step_s").get<double>(), planned_s, 0.1 * planned_s);
    if (simulated.contains("pipeline")) {  // what is drawn is the greater part of the step
      const double drawn_s = simulated.at("pipeline").at("makespan_s").get<double>();
      EXPECT_GT(drawn_s, 0.7 * planned_s);
      EXPECT_LE(drawn_s, planned_s);
    }
  }
}

TEST(RecipeCommand, FlagsWinOverARecipe) {
  const nlohmann::json plan = answer({"plan", "--recipe", "llama-3-405b-8k", "--tp", "4", "--dp",
                                      "256", "--global-batch", "4096", "--json"});
  EXPECT_EQ(plan.at("mesh").at("tp"), 4);
  EXPECT_EQ(plan.at("mesh").at("pp"), 16);
  EXPECT_EQ(plan.at("cluster").at("name"), "llama3-24k-16384");
}

TEST(RecipeCommand, ListsThemAndShowsOne) {
  const Ended all = run_in_process({"presets", "recipes"});
  EXPECT_TRUE(has(all.out, "mt-nlg-530b") && has(all.out, "arXiv 2407.21783")) << all.out;
  const Ended one = run_in_process({"presets", "recipes", "mt-nlg-530b-1120"});
  EXPECT_TRUE(has(one.out, "parallel.pp=35") && has(one.out, "nothing published")) << one.out;
  EXPECT_EQ(run_in_process({"presets", "recipes", "llama-3-405b"}).code, 2);
  EXPECT_EQ(run_in_process({"presets", "models", "gpt2"}).code, 2);
  EXPECT_EQ(answer({"presets", "recipes", "--json"}).at("recipes").size(), recipe_names().size());
}

TEST(RecipeCommand, RefusesARecipeBesideARunFile) {
  const Ended ended = run_in_process({"plan", "run.toml", "--recipe", "llama-2-70b"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_TRUE(has(ended.err, "leave out the run file")) << ended.err;
}

TEST(Fp8, IsFasterAndSaysWhatTrainsIt) {
  const Words words = {"plan",   "--model", "llama-3-8b", "--cluster",
                       "h100-8", "--zero",  "3",          "--json"};
  Words eight = words;
  eight.insert(eight.end(), {"--dtype", "fp8"});
  const nlohmann::json wide = answer(words);
  const nlohmann::json narrow = answer(eight);
  EXPECT_LT(narrow.at("time").at("forward_s"), wide.at("time").at("forward_s"));
  EXPECT_EQ(narrow.at("classes"), wide.at("classes"));
  EXPECT_EQ(narrow.at("block_products"), "fp8");
  EXPECT_TRUE(narrow.at("trainable").get<bool>());
  EXPECT_FALSE(wide.contains("trainable"));
  eight.erase(std::find(eight.begin(), eight.end(), "--json"));
  EXPECT_TRUE(has(run_in_process(eight).out, "trained by the CPU alone so far"));
  std::replace(eight.begin(), eight.end(), std::string("llama-3-8b"), std::string("mixtral-8x7b"));
  EXPECT_TRUE(has(run_in_process(eight).out, "not yet trainable"));
}

TEST(Fp8, IsRefusedWhereItCannotBe) {
  const Words run = {"--model", "llama-3-8b", "--zero", "3", "--dtype", "fp8"};
  const auto refused = [&](Words words, const std::string& part) {
    words.insert(words.end(), run.begin(), run.end());
    const Ended ended = run_in_process(words);
    EXPECT_EQ(ended.code, 2) << ended.out;
    EXPECT_TRUE(has(ended.err, part)) << ended.err;
  };
  refused({"plan", "--cluster", "a100-8"}, "no arithmetic of 8 bits");
  refused({"simulate", "--cluster", "h100-8", "--trace", "x.json"}, "use --set train.dtype=fp8");
  refused({"plan", "--cluster", "h100-8", "--emit", "megatron"}, "or --dtype bf16");
  const Ended train =
      run_in_process({"train", std::string(TESSERA_SOURCE_DIR) + "/examples/demo.toml", "--dry-run",
                      "--set", "train.dtype=fp8", "--set", "train.device=cuda"});
  EXPECT_EQ(train.code, 2);
  EXPECT_TRUE(has(train.err, "use device = \"cpu\", or dtype = \"bf16\"")) << train.err;
}

// Weights are those of bf16; amaxes of tp ranks travel, a few bytes each.
TEST(Fp8, IsPlannedAsItIsTrainedWithoutACluster) {
  const auto plan = [&](const std::string& dtype) {
    return answer({"plan", std::string(TESSERA_SOURCE_DIR) + "/examples/demo.toml", "--dtype",
                   dtype, "--json"});
  };
  const nlohmann::json eight = plan("fp8"), sixteen = plan("bf16");
  EXPECT_EQ(eight.at("dtype"), "fp8");
  EXPECT_EQ(eight.at("fp8_recipe"), "tensor");
  EXPECT_FALSE(sixteen.contains("fp8_recipe"));
  EXPECT_NE(eight.at("classes"), sixteen.at("classes"));
}

}  // namespace
}  // namespace tessera
