// Run files with one size that is far too large are planned without writing it down, or refused
// with the number and what to use instead, before the work begins.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/testing/peak_memory.h"
#include "base/testing/share.h"
#include "in_process.h"

namespace tessera {
namespace {

std::string example(const char* name) {
  return std::string(TESSERA_SOURCE_DIR) + "/examples/" + name;
}

std::vector<std::string> with(std::vector<std::string> words,
                              const std::vector<std::string>& sets) {
  for (const std::string& set : sets) words.insert(words.end(), {"--set", set});
  return words;
}

const std::vector<std::vector<std::string>> kTooMuch = {
    {"train.seq_len=10000000", "train.global_batch=0"},
    {"train.micro_batch=1000000", "train.global_batch=0"},
    {"train.micro_batch=100000", "train.global_batch=0"},
    {"model.layers=2000"},
    {"model.layers=20000"},
    {"model.layers=20000", "train.global_batch=1024"},
    {"train.global_batch=1048576"},
};

TEST(BoundsTest, PlansOfTooMuchAreMadeFromTemplates) {
  for (const std::vector<std::string>& sets : testing::share_of(kTooMuch, 3)) {
    const Ended ended = run_in_process(with({"plan", example("demo.toml"), "--json"}, sets));
    ASSERT_EQ(ended.code, 0) << sets.front() << ": " << ended.err;
    const auto plan = nlohmann::json::parse(ended.out);
    EXPECT_EQ(plan.at("source"), "templates") << sets.front();
    // Answered, or refused for its text or its memory.
    const int code = run_in_process(with({"train", example("demo.toml"), "--dry-run"}, sets)).code;
    EXPECT_TRUE(code == 0 || code == 2 || code == 3) << code;
  }
}

TEST(BoundsTest, ProgramsOfTooMuchAreRefused) {
  for (const std::vector<std::string>& sets : kTooMuch) {
    const Ended ended = run_in_process(with({"plan", example("demo.toml"), "--program"}, sets));
    EXPECT_EQ(ended.code, 2) << sets.front();
    EXPECT_NE(ended.err.find("too many to compile one by one for --program"), std::string::npos)
        << ended.err;
  }
}

TEST(BoundsTest, StepsOfTooMuchAreSimulatedByStages) {
  for (const std::vector<std::string>& sets :
       {std::vector<std::string>{"train.global_batch=65536"},
        {"train.seq_len=10000000"},
        {"train.micro_batch=1000000", "train.global_batch=0"},
        {"model.layers=20000"}}) {
    const char* reason = "instructions to build and simulate, more than the 1310720 that are";
    const std::vector<std::string> words = with({"simulate", example("pipeline.toml")}, sets);
    const Ended ended = run_in_process(words);
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_NE(ended.out.find(reason), std::string::npos) << ended.out;
    std::vector<std::string> slow = words;
    slow.insert(slow.end(), {"--slow", "rank=1,factor=2"});
    const Ended refused = run_in_process(slow);
    EXPECT_EQ(refused.code, 2) << sets.front();
    EXPECT_NE(refused.err.find(reason), std::string::npos) << refused.err;
  }
  const std::vector<std::string> schedule = {"simulate", example("pipeline.toml"),
                                             "--schedule-only"};
  EXPECT_EQ(run_in_process(with(schedule, {"train.global_batch=1048576"})).code, 2);
}

// Processor time, and memory that the process holds.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kMostSecondsOfRecipe = 160;
constexpr int64_t kMostMebibytesOfRecipe = 16384;
#else
constexpr double kMostSecondsOfRecipe = 8;
constexpr int64_t kMostMebibytesOfRecipe = 1536;
#endif

TEST(BoundsTest, RecipesOnThousandsOfDevicesAreSimulated) {
  for (const char* recipe : {"llama-3-405b-8k", "llama-3-405b-131k"}) {
    const testing::PeakMemory memory;
    const std::clock_t begin = std::clock();
    const Ended ended = run_in_process({"simulate", "--recipe", recipe, "--json"});
    const auto cpu_s = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    ASSERT_EQ(ended.code, 0) << recipe << ": " << ended.err;
    EXPECT_LE(cpu_s, kMostSecondsOfRecipe) << recipe;
    EXPECT_LE(memory.bytes() >> 20, kMostMebibytesOfRecipe) << recipe;
    EXPECT_EQ(nlohmann::json::parse(ended.out).at("cluster").at("devices"), 16384) << recipe;
  }
}

// Stages that small ones do not stand for are compiled as they are, or refused.
TEST(BoundsTest, StagesThatTakeTooMuchToPlanAreRefused) {
  for (const std::vector<std::string>& sets : std::vector<std::vector<std::string>>{
           {"parallel.fsdp=2", "parallel.zero=3", "parallel.prefetch=1000000000000"},
           {"parallel.recompute=every-5000"},
           {"parallel.tp=1", "parallel.sequence_parallel=false", "parallel.cp=512",
            "train.seq_len=4096", "train.global_batch=0"}}) {
    std::vector<std::string> deep = {"model.layers=20000", "train.micro_batch=1",
                                     "train.global_batch=64"};
    deep.insert(deep.end(), sets.begin(), sets.end());
    const Ended ended = run_in_process(with({"plan", example("demo.toml")}, deep));
    EXPECT_EQ(ended.code, 2) << sets.back() << ": " << ended.out;
    EXPECT_NE(ended.err.find("instructions to plan, and"), std::string::npos) << ended.err;
  }
}

TEST(BoundsTest, FilesWithoutAnEndAreRefused) {
  const Ended ended = run_in_process({"plan", "/dev/zero"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.err.find("'/dev/zero' has more than the 67108864 bytes"), std::string::npos)
      << ended.err;
}

// A table of runs takes no more than one plan may; those that find nothing left say so.
TEST(BoundsTest, TablesOfManyLargeRunsAreCutShort) {
  const Ended ended =
      run_in_process({"plan", example("pipeline.toml"), "--cluster", "h100-4", "--json", "--vary",
                      "train.global_batch=524288,524284,524280,524276,524272"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const auto plans = nlohmann::json::parse(ended.out).at("plans");
  EXPECT_TRUE(plans.at(0).contains("step_s"));
  EXPECT_NE(plans.at(4).at("refused").get<std::string>().find("plan fewer runs at a time"),
            std::string::npos)
      << plans.at(4);
}

TEST(BoundsTest, AllOfManyRanksAreRefusedAndTheirClassesAreNot) {
  const std::vector<std::string> words =
      with({"simulate", example("demo.toml"), "--mesh", "dp=1024,tp=2"}, {"train.global_batch=0"});
  EXPECT_EQ(run_in_process(words).code, 0);
  std::vector<std::string> all = words;
  all.emplace_back("--all-ranks");
  const Ended ended = run_in_process(all);
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.err.find("leave out --all-ranks"), std::string::npos) << ended.err;
}

}  // namespace
}  // namespace tessera
