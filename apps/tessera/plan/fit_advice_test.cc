// What `plan --check` advises, taken at its word: the printed flags are pasted behind the command.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/testing/share.h"
#include "base/text/text.h"
#include "in_process.h"
#include "requests/dice.h"

namespace tessera {
namespace {

using testing::Dice;

using Words = std::vector<std::string>;

// Large models on few devices, so that most do not fit.
Words random_workload(Dice& dice) {
  constexpr const char* kModels[] = {"llama-3-8b",   "llama-3-70b", "llama-3-405b", "llama-2-7b",
                                     "mixtral-8x7b", "qwen3-8b",    "gpt2-xl",      "deepseek-v3",
                                     "llama-3.2-3b", "llama-3.2-1b"};
  constexpr const char* kDevices[] = {"h100", "a100", "a100-40"};
  constexpr const char* kRecompute[] = {"none", "norms", "light", "selective", "full"};
  constexpr const char* kSchedules[] = {"1f1b", "gpipe", "interleaved", "zb-h1", "zb-h2", "zb-v"};
  const int64_t tp = int64_t{1} << dice.below(4);
  const int64_t pp = int64_t{1} << dice.below(4);
  const int64_t replicas = int64_t{1} << dice.below(6);
  const int64_t micro_batch = int64_t{1} << dice.below(4);
  Words words = {"plan", "--model", dice.pick(kModels), "--cluster",
                 fmt::format("{}-{}", dice.pick(kDevices), tp * pp * replicas)};
  const auto add = [&](std::string flag, const auto& value) {
    words.push_back(std::move(flag));
    words.push_back(fmt::format("{}", value));
  };
  const bool sharded = dice.one_in(4);
  if (dice.one_in(4)) {
    add("--mesh", fmt::format("tp={},pp={},{}={},recompute={}", tp, pp, sharded ? "fsdp" : "dp",
                              replicas, dice.pick(kRecompute)));
  } else {
    add("--tp", tp);
    add("--pp", pp);
    if (sharded) add("--fsdp", replicas);
    // A split that is not said in whole would be filled in so that it fits.
    if (!sharded) add("--zero", dice.one_in(2) ? dice.below(4) : 0);
    if (dice.one_in(3)) add("--set", fmt::format("parallel.recompute={}", dice.pick(kRecompute)));
    if (dice.one_in(3)) add("--set", fmt::format("parallel.schedule={}", dice.pick(kSchedules)));
  }
  add("--seq-len", int64_t{1024} << dice.below(4));
  add("--micro-batch", micro_batch);
  if (!dice.one_in(3)) add("--global-batch", micro_batch * replicas * pp * (1 + dice.below(8)));
  return words;
}

// Words of the printed flags behind those of the command; a mesh replaces a mesh.
Words pasted(const Words& command, const std::string& flags) {
  Words words;
  const bool other_mesh = flags.starts_with("--mesh ");
  for (size_t i = 0; i < command.size(); ++i) {
    if (other_mesh && command[i] == "--mesh") {
      ++i;
    } else {
      words.push_back(command[i]);
    }
  }
  for (const std::string_view word : split(flags, ' ')) words.emplace_back(word);
  return words;
}

// "  FLAGS: 12.3 GiB of 73.0 GiB, …" of the message.
std::vector<std::string> printed_flags(const std::string& message) {
  std::vector<std::string> flags;
  for (const std::string_view line : split(message, '\n')) {
    const size_t colon = line.find(": ");
    if (line.starts_with("  --") && colon != line.npos)
      flags.emplace_back(line.substr(2, colon - 2));
  }
  return flags;
}

// No change has all settings of another one.
void expect_minimal(const nlohmann::json& changes) {
  std::vector<Words> all;
  for (const auto& change : changes) {
    all.push_back(change.at("settings").get<Words>());
    std::sort(all.back().begin(), all.back().end());
  }
  for (const Words& more : all) {
    for (const Words& fewer : all) {
      if (&more == &fewer) continue;
      EXPECT_FALSE(std::includes(more.begin(), more.end(), fewer.begin(), fewer.end()));
    }
  }
}

TEST(FitAdvice, FitsWhenItIsPasted) {
  int advised = 0;
  int complete = 0;
  const testing::Share seeds = testing::share_of(30, 3);
  for (int64_t seed = seeds.begin; seed < seeds.end; ++seed) {
    Dice dice(static_cast<uint64_t>(seed));
    Words check = random_workload(dice);
    check.insert(check.end(), {"--check", "--json"});
    const Ended ended = run_in_process(check);
    if (ended.code != 3) continue;
    SCOPED_TRACE(fmt::format("seed {}: {}\n{}", seed, fmt::join(check, " "), ended.err));
    const auto json = nlohmann::json::parse(ended.out);
    const auto& changes = json.at("changes");
    if (changes.empty()) continue;
    ++advised;
    complete += changes.size() == 3 ? 1 : 0;
    expect_minimal(changes);
    const std::vector<std::string> flags = printed_flags(ended.err);
    ASSERT_EQ(flags.size(), changes.size());
    double before = 0;
    for (size_t i = 0; i < changes.size(); ++i) {
      const Ended fits = run_in_process(pasted(check, flags[i]));
      ASSERT_EQ(fits.code, 0) << flags[i] << "\n" << fits.err;
      const auto plan = nlohmann::json::parse(fits.out);
      const double step_s = changes[i].at("step_s").get<double>();
      EXPECT_EQ(plan.at("time").at("step_s").get<double>(), step_s) << flags[i];
      EXPECT_EQ(plan.at("world"), json.at("world")) << flags[i];
      EXPECT_LE(before, step_s);
      before = step_s;
    }
  }
  EXPECT_GE(advised, seeds.size() / 10);
  EXPECT_GE(10 * (complete + 1), 9 * advised);
}

TEST(FitAdvice, SaysHowManyDevicesWouldDo) {
  const Ended ended = run_in_process(
      {"plan", "--model", "llama-3-70b", "--cluster", "h100-1", "--check", "--json"});
  EXPECT_EQ(ended.code, 3);
  const auto json = nlohmann::json::parse(ended.out);
  EXPECT_TRUE(json.at("changes").empty());
  EXPECT_GT(json.at("nearest_change").at("bytes_over").get<int64_t>(), 0);
  const auto& more = json.at("more_devices");
  Words again = {"plan",
                 "--model",
                 "llama-3-70b",
                 "--cluster",
                 fmt::format("h100-{}", more.at("devices").get<int64_t>()),
                 "--check"};
  for (const std::string& setting : more.at("settings").get<Words>()) {
    again.insert(again.end(), {"--set", setting});
  }
  const Ended fits = run_in_process(again);
  EXPECT_EQ(fits.code, 0) << fits.err;
}

}  // namespace
}  // namespace tessera
