// What is filled in where nobody said all of a split.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/testing/share.h"
#include "base/text/text.h"
#include "in_process.h"

namespace tessera {
namespace {

using Words = std::vector<std::string>;

Words plan_of(const std::string& model, const std::string& cluster, const Words& more = {}) {
  Words words = {"plan", "--model", model, "--cluster", cluster, "--json"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

nlohmann::json answer(const Words& words) {
  const Ended ended = run_in_process(words);
  EXPECT_EQ(ended.code, 0) << fmt::format("{}\n{}", fmt::join(words, " "), ended.err);
  return ended.code == 0 ? nlohmann::json::parse(ended.out) : nlohmann::json();
}

// The flags of the guess "split"; empty: nothing was chosen.
std::string chosen_flags(const nlohmann::json& plan) {
  for (const auto& guess : plan.at("guesses")) {
    if (guess.at("what") != "split") continue;
    const auto taken = guess.at("taken").get<std::string>();
    return taken.substr(0, taken.find(": "));
  }
  return "";
}

TEST(ChosenSplit, FitsAndIsTheSamePlanWhenItIsTyped) {
  const std::vector<std::pair<const char*, const char*>> all = {
      {"llama-3-70b", "a100-256"}, {"llama-3-8b", "h100-64"},    {"llama-3-405b", "h100-16384"},
      {"mixtral-8x7b", "h100-64"}, {"deepseek-v3", "h100-2048"}, {"llama-2-7b", "pc-4x24-8"}};
  for (const auto& [model, cluster] : testing::share_of(all, 3)) {
    SCOPED_TRACE(fmt::format("{} on {}", model, cluster));
    const nlohmann::json plan = answer(plan_of(model, cluster));
    EXPECT_TRUE(plan.at("fits").get<bool>());
    const std::string flags = chosen_flags(plan);
    ASSERT_NE(flags, "");
    Words typed = plan_of(model, cluster);
    for (const std::string_view word : split(flags, ' ')) typed.emplace_back(word);
    const nlohmann::json again = answer(typed);
    EXPECT_EQ(chosen_flags(again), "");
    for (const char* key : {"mesh", "peak_bytes", "time", "classes"}) {
      EXPECT_EQ(plan.at(key), again.at(key)) << key << " of " << flags;
    }
  }
}

TEST(ChosenSplit, NamesSearchAndLeavesGradientsAlone) {
  const Ended ended = run_in_process({"plan", "--model", "mixtral-8x7b", "--cluster", "h100-64"});
  EXPECT_EQ(ended.code, 0);
  EXPECT_NE(ended.out.find("tessera search"), std::string::npos) << ended.out;
  EXPECT_NE(ended.out.find("\nfits: "), std::string::npos) << ended.out;
  EXPECT_EQ(ended.out.find("train.gradients"), std::string::npos) << ended.out;
}

TEST(ChosenSplit, KeepsWhatWasSaid) {
  const nlohmann::json tensors = answer(plan_of("llama-3-70b", "a100-256", {"--tp", "8"}));
  EXPECT_TRUE(tensors.at("fits").get<bool>());
  EXPECT_EQ(tensors.at("mesh").at("tp"), 8);
  EXPECT_EQ(chosen_flags(tensors).find("--tp"), std::string::npos);
  const nlohmann::json stages =
      answer(plan_of("llama-3-70b", "a100-256", {"--set", "parallel.pp=4", "--zero", "1"}));
  EXPECT_TRUE(stages.at("fits").get<bool>());
  EXPECT_EQ(stages.at("mesh").at("pp"), 4);
  EXPECT_EQ(chosen_flags(stages).find("--zero"), std::string::npos) << chosen_flags(stages);
  const nlohmann::json batch = answer(plan_of("llama-3-70b", "a100-256", {"--global-batch", "64"}));
  EXPECT_TRUE(batch.at("fits").get<bool>());
  EXPECT_NE(chosen_flags(batch), "");
}

// Whoever says it all gets it, also where it does not fit.
TEST(ChosenSplit, DoesNotTouchASplitThatIsSaidInWhole) {
  for (const Words& said : {Words{"--dp", "256", "--zero", "0"}, Words{"--mesh", "dp=256"},
                            Words{"--tp", "1", "--pp", "1", "--zero", "0"}}) {
    const nlohmann::json plan = answer(plan_of("llama-3-70b", "a100-256", said));
    EXPECT_FALSE(plan.at("fits").get<bool>());
    EXPECT_EQ(plan.at("mesh").at("dp"), 256);
    EXPECT_EQ(chosen_flags(plan), "");
  }
}

TEST(ChosenSplit, ChoosesNothingWhereItFitsOrWhereNothingDoes) {
  EXPECT_EQ(chosen_flags(answer(plan_of("llama-3.2-1b", "h100-8"))), "");
  const nlohmann::json none = answer(plan_of("llama-3-405b", "h100-8"));
  EXPECT_FALSE(none.at("fits").get<bool>());
  EXPECT_EQ(chosen_flags(none), "");
}

TEST(ChosenSplit, IsSimulatedToo) {
  const nlohmann::json simulated =
      answer({"simulate", "--model", "llama-3-8b", "--cluster", "h100-16", "--json"});
  EXPECT_NE(chosen_flags(simulated), "");
}

}  // namespace
}  // namespace tessera
