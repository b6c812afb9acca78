// What a search finds is what other commands take: flags of plan, settings of other systems, run
// files.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/testing/share.h"
#include "cli/read_text.h"
#include "in_process.h"

namespace tessera {
namespace {

using Words = std::vector<std::string>;
using nlohmann::json;

Words words_of(const std::string& text) {
  std::istringstream in(text);
  Words words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

Ended run(const std::string& command) { return run_in_process(words_of(command)); }

json search_json(const std::string& flags) {
  const Ended ended = run("search " + flags + " --json");
  EXPECT_EQ(ended.err, "") << flags;
  return json::parse(ended.out);
}

// All plans of a search, the best that can be run among them.
std::vector<json> plans_of(const json& report) {
  std::vector<json> plans = report.at("plans").get<std::vector<json>>();
  if (report.contains("best_runnable")) plans.push_back(report.at("best_runnable"));
  return plans;
}

// Slow links decide there: whoever prices messages below what a link can carry ranks plans wrongly.
TEST(SearchPlansTest, TheFirstThreeKeepTheirOrderInSimulations) {
  for (const auto& [machine, rest] : std::vector<std::pair<std::string, std::string>>{
           {"--model llama-2-7b --cluster pc-4x24-8", "--global-batch 64 --seq-len 4096 --top 3"},
           {"--model llama-3.2-3b --cluster two-pcs",
            "--global-batch 32 --seq-len 4096 --top 3"}}) {
    double before = 0;
    for (const json& plan : search_json(machine + " " + rest).at("plans")) {
      const auto flags = plan.at("plan_flags").get<std::string>();
      ASSERT_NE(flags, "") << plan;
      const Ended simulated = run("simulate " + machine + " " + flags + " --json");
      ASSERT_EQ(simulated.err, "") << flags;
      const auto step = json::parse(simulated.out).at("step_s").get<double>();
      EXPECT_GT(step, before) << machine << " " << flags;
      EXPECT_NEAR(step, plan.at("time").at("step_s").get<double>(), 0.1 * step) << flags;
      before = step;
    }
  }
}

TEST(SearchPlansTest, FlagsOfPlanGiveTheSamePlan) {
  using Case = std::pair<std::string, std::string>;
  const std::vector<Case> cases = {
      {"--model llama-3-8b --cluster h100-16", "--global-batch 64 --seq-len 4096 --top 4"},
      {"--model llama-3-70b --cluster a100-64", "--global-batch 128 --seq-len 4096 --top 3"},
      {"--model llama-3-8b --cluster h100-16", "--global-batch 16 --seq-len 32768 --cp 4 --top 2"},
      {"--model mixtral-8x7b --cluster h100-64",
       "--global-batch 256 --seq-len 4096 --ep 8 --tp 1 --top 6"},
      {"--model llama-2-7b --cluster pc-4x24-8",
       "--global-batch 32 --seq-len 2048 --zero 3 --top 2"}};
  for (const auto& [machine, rest] : testing::share_of(cases, 2)) {
    int compared = 0;
    for (const json& plan : plans_of(search_json(machine + " " + rest))) {
      const auto flags = plan.at("plan_flags").get<std::string>();
      if (flags.empty()) {
        EXPECT_NE(plan.at("engine_lacks"), "") << plan;
        continue;
      }
      const Ended planned = run("plan " + machine + " " + flags + " --json");
      ASSERT_EQ(planned.err, "") << flags;
      const json again = json::parse(planned.out);
      EXPECT_EQ(again.at("time").at("step_s"), plan.at("plan_step_s")) << flags;
      EXPECT_EQ(again.at("peak_bytes"), plan.at("engine_peak_bytes")) << flags;
      ++compared;
    }
    EXPECT_GT(compared, 0) << machine << ' ' << rest;
  }
}

// The words of the table are words of plan: ep without fsdp takes the replicas.
TEST(SearchPlansTest, ExpertsAreTypedAsTheTableSaysThem) {
  const Ended ended = run(
      "plan --model mixtral-8x7b --cluster h100-64 --seq-len 4096 --global-batch 256 --tp 1 --pp 4 "
      "--dp 16 --ep 8 --zero 1 --json");
  ASSERT_EQ(ended.err, "");
  const json plan = json::parse(ended.out);
  EXPECT_EQ(plan.at("world"), 64);
  const Ended open = run(
      "plan --model mixtral-8x7b --cluster h100-64 --seq-len 4096 --global-batch 256 --tp 1 --pp 4 "
      "--ep 8 --zero 1 --json");
  ASSERT_EQ(open.err, "");
  EXPECT_EQ(json::parse(open.out).at("peak_bytes"), plan.at("peak_bytes"));
}

// The cost model's plans need more in our Programs: what plan proposes, search finds.
TEST(SearchPlansTest, FindsWhatThePlannersAdviceFinds) {
  for (const std::string& workload : testing::share_of<std::string>(
           {"--model mixtral-8x22b --cluster h100-64 --global-batch 256 --seq-len 4096",
            "--model mixtral-8x22b --cluster h100-256 --global-batch 512 --seq-len 4096",
            "--model mixtral-8x7b --cluster h100-32 --global-batch 64 --seq-len 32768"},
           3)) {
    const json report = search_json(workload + " --top 2");
    double best = 0;
    for (const json& plan : plans_of(report)) {
      if (plan.at("engine_lacks") != "") continue;
      EXPECT_LE(plan.at("engine_peak_bytes"), report.at("memory_limit_bytes"));
      if (best == 0) best = plan.at("plan_step_s");
    }
    ASSERT_GT(best, 0) << workload;
    const json advice = json::parse(run("plan " + workload + " --zero 0 --tp 1 --pp 1 --json").out);
    ASSERT_FALSE(advice.at("fits").get<bool>());
    ASSERT_FALSE(advice.at("changes").empty());
    for (const json& change : advice.at("changes")) {
      EXPECT_LE(best, change.at("step_s").get<double>()) << workload << ' ' << change;
    }
  }
}

TEST(SearchPlansTest, NamesWhatWouldRunWhereNothingDoes) {
  const json report = search_json(
      "--model mixtral-8x22b --cluster h100-64 --global-batch 256 --seq-len 4096 --tp 1 --pp 1 "
      "--cp 1 --zero 2 --top 1");
  EXPECT_FALSE(report.contains("best_runnable"));
  ASSERT_FALSE(report.at("runnable_with").empty()) << report;
  EXPECT_NE(report.at("runnable_with").dump().find("--zero 3"), std::string::npos)
      << report.at("runnable_with");
}

TEST(SearchPlansTest, ExitsWithThreeWhereAFolderGetsNoFile) {
  const std::string folder = ::testing::TempDir() + "/tessera_search_none";
  std::filesystem::remove_all(folder);
  const Ended ended =
      run("search --model deepseek-v2-lite --cluster h100-16 --global-batch 64 --seq-len 4096 "
          "--top 2 --out " +
          folder);
  EXPECT_EQ(ended.code, static_cast<int>(ExitCode::kDoesNotFit)) << ended.out;
  EXPECT_NE(ended.err.find("no run file"), std::string::npos) << ended.err;
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove_all(folder);
}

TEST(SearchPlansTest, FilesSayWhereTheyComeFrom) {
  const std::string folder = ::testing::TempDir() + "/tessera_search_origin";
  std::filesystem::remove_all(folder);
  const std::string command =
      "search --model llama-3-8b --cluster h100-8 --global-batch 8 --seq-len 2048 --top 1";
  const Ended ended = run(command + " --out " + folder);
  ASSERT_EQ(ended.code, 0) << ended.err;
  const std::string text = read_text(folder + "/plan-01.toml");
  EXPECT_NE(text.find("# Plan 1 of: tessera " + command + "\n"), std::string::npos) << text;
  EXPECT_NE(text.find("name = \"h100-8\""), std::string::npos) << text;
  EXPECT_NE(text.find(" s by tessera plan; "), std::string::npos) << text;
  EXPECT_NE(ended.err.find("next: tessera train " + folder + "/plan-01.toml"), std::string::npos)
      << ended.err;
  std::filesystem::remove_all(folder);
}

TEST(SearchPlansTest, PlansForASystemCanBeEmittedForIt) {
  const std::vector<std::string> systems = {"megatron", "torchtitan", "deepspeed"};
  for (const std::string& system : testing::share_of(systems, 3)) {
    int emitted = 0;
    for (const std::string workload :
         {"--model llama-3-8b --cluster h100-16 --global-batch 64 --seq-len 4096",
          "--model llama-3-70b --cluster a100-64 --global-batch 128 --seq-len 4096",
          "--model llama-3-405b --cluster h100-2048 --global-batch 512 --seq-len 8192",
          "--model qwen3-30b-a3b --cluster h100-64 --global-batch 256 --seq-len 4096"}) {
      const json report = search_json(workload + " --top 4 --for " + system);
      const Words given = words_of(workload);
      const std::string machine = given[0] + ' ' + given[1] + ' ' + given[2] + ' ' + given[3] + ' ';
      for (const json& plan : plans_of(report)) {
        const auto flags = plan.at("plan_flags").get<std::string>();
        ASSERT_NE(flags, "") << plan;
        const Ended settings = run("plan " + machine + flags + " --emit " + system);
        EXPECT_EQ(settings.code, 0) << system << ' ' << flags << '\n' << settings.err;
        ++emitted;
      }
    }
    EXPECT_GT(emitted, 8) << system;
  }
}

TEST(SearchPlansTest, RefusesAModelThatTheSystemHasNot) {
  const Ended ended =
      run("search --model llama-2-7b --cluster h100-8 --global-batch 8 --seq-len 2048 --for "
          "torchtitan");
  EXPECT_EQ(ended.code, static_cast<int>(ExitCode::kUsage));
  EXPECT_NE(ended.err.find("torchtitan has no setting for: a model of 32 layers"),
            std::string::npos)
      << ended.err;
}

TEST(SearchPlansTest, KeepsToSchedulesAndRecomputation) {
  const std::string workload =
      "--model llama-3-70b --cluster a100-64 --global-batch 128 --seq-len 4096 --top 8 ";
  for (const json& plan :
       search_json(workload + "--pp 8 --schedule gpipe,1f1b --recompute none,full").at("plans")) {
    const json& s = plan.at("strategy");
    EXPECT_TRUE(s.at("schedule") == "gpipe" || s.at("schedule") == "1f1b") << s;
    EXPECT_TRUE(s.at("recompute") == "none" || s.at("recompute_layers") == -1) << s;
    EXPECT_TRUE(s.at("stage_recompute").empty()) << s;
  }
  for (const auto& [flags, says] : std::vector<std::pair<std::string, std::string>>{
           {"--schedule zbv", "did you mean 'zb-v'?"},
           {"--schedule pipedream", "no schedule that a search tries"},
           {"--recompute light", "use none, selective, full"},
           {"--recompute selective", "saves nothing of fused attention"},
           {"--for megatrn", "megatron"},
           {"--deadline 3", "--tokens"},
           {"--tokens 1T", "--deadline"}}) {
    const Ended ended = run("search " + workload + flags);
    EXPECT_EQ(ended.code, static_cast<int>(ExitCode::kUsage)) << flags;
    EXPECT_NE(ended.err.find(says), std::string::npos) << ended.err;
  }
}

TEST(SearchPlansTest, CountsDevicesForADeadline) {
  const std::string workload =
      "--model llama-3-8b --cluster h100 --global-batch 256 --seq-len 4096 --top 1 ";
  const Ended ended = run("search " + workload + "--deadline 30 --tokens 1T --json");
  ASSERT_EQ(ended.code, 0) << ended.err;
  const json report = json::parse(ended.out);
  const json& answer = report.at("deadline");
  EXPECT_EQ(report.at("devices"), answer.at("devices"));
  int64_t below = 0;
  for (const json& tried : answer.at("tried")) {
    if (tried.at("devices") < answer.at("devices")) {
      EXPECT_FALSE(tried.at("in_time").get<bool>()) << tried;
      below = std::max(below, tried.at("devices").get<int64_t>());
    }
    if (tried.at("devices") == answer.at("devices")) {
      EXPECT_LE(tried.at("days"), 30);
      EXPECT_GT(tried.at("usd"), 0);
    }
  }
  EXPECT_GE(2 * below, answer.at("devices").get<int64_t>());
  const Ended text = run("search " + workload + "--deadline 30 --tokens 1T");
  EXPECT_NE(text.out.find("tokens in 30 days: "), std::string::npos) << text.out;
  const Ended never = run("search " + workload + "--deadline 0.001 --tokens 1T");
  EXPECT_EQ(never.code, static_cast<int>(ExitCode::kDoesNotFit));
  EXPECT_NE(never.out.find("a larger --global-batch"), std::string::npos) << never.out;
}

}  // namespace
}  // namespace tessera
