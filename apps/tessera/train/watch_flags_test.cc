// Watching a small run, on threads of this process: its trace, its event file, its end in time.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "in_process.h"
#include "watch/event_file.h"
#include "watch/metrics_line.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kRun = R"(
[model]
family = "llama"
layers = 2
hidden = 32
ffn = 64
heads = 4
kv_heads = 2
vocab = 256
[parallel]
pp = 2
dp = 2
[train]
seq_len = 16
micro_batch = 1
global_batch = 8
steps = 6
threads = 1
device = "cpu"
[data]
synth = { seed = 7, bytes = 20000 }
)";

class WatchFlagsTest : public ::testing::Test {
 protected:
  WatchFlagsTest() {
    std::string name = (fs::temp_directory_path() / "tessera-watch-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    folder_ = name;
    std::ofstream(folder_ / "run.toml") << kRun;
  }
  ~WatchFlagsTest() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }
  [[nodiscard]] Ended train(const std::vector<std::string>& more) const {
    std::vector<std::string> args = {"train", path("run.toml"), "--threads",
                                     "-q",    "--set",          "logging.run_dir=" + path("out")};
    args.insert(args.end(), more.begin(), more.end());
    return run_in_process(args);
  }
  [[nodiscard]] std::string contents(const fs::path& file) const {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  fs::path folder_;
};

// How often each slice, arrow and name is in a trace, by place and name.
std::map<std::tuple<std::string, int, int, std::string>, int> counted(const json& trace) {
  std::map<std::tuple<std::string, int, int, std::string>, int> counts;
  for (const json& event : trace.at("traceEvents")) {
    const auto kind = event.at("ph").get<std::string>();
    if (kind == "C" || kind == "M") continue;
    ++counts[{kind, event.at("pid"), event.at("tid"), event.at("name")}];
  }
  return counts;
}

TEST_F(WatchFlagsTest, TraceHasTheSlicesOfTheSimulation) {
  const Ended trained = train({"--trace", path("real.json"), "--trace-steps", "2..4"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Ended simulated = run_in_process(
      {"simulate", path("run.toml"), "--all-ranks", "-q", "--trace", path("sim.json")});
  ASSERT_EQ(simulated.code, 0) << simulated.err;
  const json real = json::parse(contents(path("real.json")));
  auto expected = counted(json::parse(contents(path("sim.json"))));
  for (auto& [name, count] : expected) count *= 3;  // steps
  EXPECT_EQ(counted(real), expected);
  EXPECT_EQ(real.at("distributedInfo").at("backend"), "local");
  for (const json& event : real.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    EXPECT_GE(event.at("dur").get<double>(), 0);
    EXPECT_GE(event.at("ts").get<double>(), 0);
  }
}

TEST_F(WatchFlagsTest, EndsWhenItsTimeIsUp) {
  const Ended ended = train({"--max-minutes", "0.0000001"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.out.find("the time was up (--max-minutes 1e-07): 1 of 6 steps are done"),
            std::string::npos)
      << ended.out;
  const json summary = json::parse(contents(path("out/summary.json")));
  EXPECT_EQ(summary.at("steps"), 1);
  EXPECT_EQ(summary.at("out_of_time").at("planned_steps"), 6);
  EXPECT_EQ(summary.at("compute_ms").size(), 4U);
}

TEST_F(WatchFlagsTest, EventFileHasTheNumbersOfTheMetrics) {
  ASSERT_EQ(train({"--set", "logging.tensorboard=true"}).code, 0);
  std::vector<Scalars> events;
  for (const auto& entry : fs::directory_iterator(path("out"))) {
    if (!entry.path().filename().string().starts_with(kEventFilePrefix)) continue;
    events = read_event_file(contents(entry.path()));
  }
  ASSERT_EQ(events.size(), 6U);
  std::ifstream metrics(path("out/metrics.jsonl"));
  std::string text;
  for (size_t i = 0; std::getline(metrics, text); ++i) {
    const Scalars expected = scalars_of(parse_metrics_line(text));
    ASSERT_EQ(events[i].values.size(), expected.values.size());
    EXPECT_EQ(events[i].step, expected.step);
    for (size_t k = 0; k < expected.values.size(); ++k) {
      EXPECT_EQ(events[i].values[k].first, expected.values[k].first);
      EXPECT_FLOAT_EQ(static_cast<float>(events[i].values[k].second),
                      static_cast<float>(expected.values[k].second));
    }
  }
}

TEST_F(WatchFlagsTest, RefusesBeforeTheRunStarts) {
  const auto refusal = [&](const std::vector<std::string>& more) {
    const Ended ended = train(more);
    EXPECT_EQ(ended.code, 2) << ended.err;
    EXPECT_FALSE(fs::exists(path("out")));
    return ended.err;
  };
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(refusal({"--trace-steps", "2..3"}), "give --trace as well");
  has(refusal({"--trace", path("t.json"), "--trace-steps", "9..10"}), "train.steps is 6");
  has(refusal({"--trace", path("t.json"), "--trace-steps", "3-4"}), "such as 3..5");
  has(refusal({"--trace", path("none/t.json")}), "there is no folder");
  has(refusal({"--trace", folder_.string()}), "which is a folder");
  has(refusal({"--trace", path("run.toml")}), "is a file of another kind");
}

}  // namespace
}  // namespace tessera
