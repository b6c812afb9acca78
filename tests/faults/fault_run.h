// A tiny run that something happens to, and what must hold afterwards, whatever it was:
//   I1 nothing waits past its bound (Command::finish fails after three minutes), and events.jsonl
//      says how long it took to abort, to meet again and to go on
//   I2 the loss curve and the final weights are those of the run that nothing happened to
//   I3 every step reads its samples exactly once: the metrics are those of one pass over the steps,
//      and so is the sum over all samples that the run has read
//   I4 the newest checkpoint is whole, and no unfinished one was left
//   I5 events.jsonl names the rank, the verdict and the phase
//   I6 no process of the job is left
//   I7 the exit code is the documented one
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "support/command.h"
#include "support/processes.h"

namespace tessera::testing {

// The sum that metrics.jsonl has where each sample below `samples` was read once: counted here
// without the program.
inline std::string hash_of_samples(int64_t samples) {
  uint64_t sum = 0;
  for (int64_t sample = 0; sample < samples; ++sample) {
    uint64_t x = static_cast<uint64_t>(sample) + 0x9e3779b97f4a7c15;
    for (const auto& [shift, factor] :
         {std::pair(30, 0xbf58476d1ce4e5b9), {27, 0x94d049bb133111eb}, {31, uint64_t{1}}}) {
      x = (x ^ (x >> shift)) * factor;
    }
    sum += x;
  }
  return fmt::format("{:016x}", sum);
}

// What it took from one event to another, in seconds; the largest of a test.
struct RecoveryTimes {
  double abort = 0;   // from the verdict to the new generation: all ranks have ended
  double meet = 0;    // from there to the first step, where nothing is loaded
  double memory = 0;  // from the verdict until a snapshot was loaded
  double disk = 0;    // from the verdict until a checkpoint was loaded
};

// What events.jsonl is to say of the first verdict; empty and negative: whatever it says.
struct ExpectedVerdict {
  std::string verdict = "lost";
  int rank = -1;
  std::string phase = {};
  int64_t step = -1;
};

class FaultTest : public CommandTest {
 protected:
  static constexpr int kSteps = 8, kBatch = 4, kTokensOfSample = 8;

  FaultTest() { folder_.write("run.toml", run_file()); }

  // dp = 2, tp = 2 would be four processes on few cores: two do.
  static std::string run_file() {
    return fmt::format(
        "[model]\nlayers=2\nhidden=16\nffn=32\nheads=2\nvocab=256\n[parallel]\ndp=2\n[train]\n"
        "seq_len={}\nglobal_batch={}\nsteps={}\ndtype=\"f32\"\nthreads=1\n[data.synth]\nbytes="
        "3000\n"
        "[optimizer]\nlr=1e-2\n[checkpoint]\nevery=3\nkeep=2\nasync=false\n",
        kTokensOfSample, kBatch, kSteps);
  }

  // The run that nothing happens to, made once for all tests of the program.
  struct Undisturbed {
    std::string weights;
    std::vector<nlohmann::json> metrics;
  };
  static const Undisturbed& undisturbed() {
    static const Undisturbed kRun = [] {
      TestFolder folder;
      folder.write("run.toml", run_file());
      const CommandResult result =
          tessera(folder, "train run.toml -q --threads --set logging.run_dir=out");
      EXPECT_EQ(result.code, 0) << result.err;
      return Undisturbed{read_file(folder.path("out/model.safetensors")),
                         read_metrics(folder.path("out/metrics.jsonl"))};
    }();
    return kRun;
  }

  // What a run has left in "out".
  [[nodiscard]] Undisturbed left_by_run() const {
    return {read_file(folder_.path("out/model.safetensors")),
            read_metrics(folder_.path("out/metrics.jsonl"))};
  }
  // The run with these flags that nothing happens to.
  Undisturbed undisturbed(const std::string& flags) {
    const CommandResult result = train("", flags);
    EXPECT_EQ(result.code, 0) << result.err;
    return left_by_run();
  }

  CommandOptions with_fault(const std::string& fault) const {
    CommandOptions options;
    if (!fault.empty()) options.environment.push_back("TESSERA_FAULT=" + fault);
    return options;
  }
  // `fault`: as TESSERA_FAULT.
  CommandResult train(const std::string& fault, const std::string& flags = "--restarts 2") {
    std::filesystem::remove_all(folder_.path("out"));
    std::vector<std::string> words =
        words_of("train run.toml -q --set logging.run_dir=out " + flags);
    Command command(folder_, words, with_fault(fault));
    agent_ = command.pid();
    return command.finish();
  }

  [[nodiscard]] std::vector<nlohmann::json> events(const std::string& kind) const {
    std::vector<nlohmann::json> found;
    if (!std::filesystem::exists(folder_.path("out/events.jsonl"))) return found;
    for (const nlohmann::json& event : read_metrics(folder_.path("out/events.jsonl"))) {
      if (event.at("event") == kind) found.push_back(event);
    }
    return found;
  }

  // I2, I3, I4.
  void expect_same_run() {
    expect_same_as(undisturbed());
    expect_good_checkpoints();
  }
  // I2 and I3: the weights, and a line for every step with what the run has there that nothing
  // happened to.
  void expect_same_as(const Undisturbed& theirs) {
    const Undisturbed mine = left_by_run();
    EXPECT_FALSE(theirs.weights.empty());
    EXPECT_TRUE(mine.weights == theirs.weights) << "other weights";
    ASSERT_EQ(mine.metrics.size(), theirs.metrics.size());
    for (size_t i = 0; i < mine.metrics.size(); ++i) {
      const nlohmann::json& line = mine.metrics[i];
      for (const char* key : {"step", "loss", "lr", "grad_norm", "tokens", "samples_hash"}) {
        EXPECT_EQ(line.at(key), theirs.metrics[i].at(key)) << key << " of line " << i;
      }
      EXPECT_EQ(line.at("samples_hash"),
                hash_of_samples(line.at("tokens").get<int64_t>() / kTokensOfSample));
    }
  }
  void expect_good_checkpoints() {
    const CommandResult verified = run("checkpoint verify out --deep");
    EXPECT_EQ(verified.code, 0) << verified.err;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path("out/checkpoints"))) {
      EXPECT_FALSE(entry.path().filename().string().starts_with(".inprogress"))
          << entry.path().filename();
    }
  }
  // I5.
  void expect_verdict(const ExpectedVerdict& expected) {
    const std::vector<nlohmann::json> verdicts = events("verdict");
    ASSERT_FALSE(verdicts.empty());
    const nlohmann::json& first = verdicts.front();
    EXPECT_EQ(first.at("verdict"), expected.verdict) << first;
    if (expected.rank >= 0) {
      EXPECT_EQ(first.at("rank"), expected.rank) << first;
    }
    if (!expected.phase.empty()) {
      EXPECT_EQ(first.at("phase"), expected.phase) << first;
    }
    if (expected.step >= 0) {
      EXPECT_EQ(first.at("step"), expected.step) << first;
    }
    EXPECT_EQ(first.at("generation"), 1) << first;
    EXPECT_GT(first.at("time").get<double>(), 0);
  }
  // I6. What a rank shares has no name, so that nothing but a process can be left of it.
  void expect_nothing_left() const {
    EXPECT_TRUE(wait_until([&] { return ranks_of(agent_).empty() && !is_running(agent_); }));
    EXPECT_TRUE(wait_until([&] { return left_in_folder() == 0; })) << "processes are left";
  }
  // Processes whose working directory is that of this test.
  [[nodiscard]] int left_in_folder() const {
    int left = 0;
    std::error_code gone;
    const std::filesystem::path here = std::filesystem::canonical(folder_.path());
    for (const auto& entry : std::filesystem::directory_iterator("/proc", gone)) {
      const std::filesystem::path cwd = std::filesystem::read_symlink(entry.path() / "cwd", gone);
      if (!gone && cwd == here) ++left;
      gone.clear();
    }
    return left;
  }

  // I1: three times what is meant to be enough (docs/faults.md), for machines that are busy.
  void expect_times() {
    double verdict = 0, restart = 0;
    for (const nlohmann::json& event : read_metrics(folder_.path("out/events.jsonl"))) {
      const auto kind = event.at("event").get<std::string>();
      const auto time = event.at("time").get<double>();
      if (kind == "verdict" && event.at("verdict") == "lost") verdict = time;
      if (kind == "restart") {
        restart = time;
        times_.abort = std::max(times_.abort, restart - verdict);
      }
      if (kind != "resume" || verdict == 0) continue;
      double& longest = event.value("memory", false) ? times_.memory : times_.disk;
      longest = std::max(longest, time - verdict);
      restart = 0;
    }
    if (restart > 0) {
      const auto metrics = read_metrics(folder_.path("out/metrics.jsonl"));
      times_.meet = std::max(times_.meet, metrics.front().at("time").get<double>() - restart);
    }
    EXPECT_LE(times_.abort, 3 * 1);
    EXPECT_LE(times_.meet, 3 * 5);
    EXPECT_LE(times_.memory, 3 * 10);
    EXPECT_LE(times_.disk, 3 * 30);
  }
  void TearDown() override {
    if (times_.abort == 0) return;
    fmt::print("from the verdict: ranks ended after {:.2f} s", times_.abort);
    for (const auto& [what, seconds] : {std::pair("met again", times_.meet),
                                        {"on from memory", times_.memory},
                                        {"on from disk", times_.disk}}) {
      if (seconds > 0) fmt::print(", {} after {:.2f} s", what, seconds);
    }
    fmt::print("\n");
  }

  // All of them, of a run that survives.
  void expect_survived(const CommandResult& result, const ExpectedVerdict& verdict,
                       size_t restarts = 1) {
    ASSERT_EQ(result.code, 0) << result.err;
    expect_same_run();
    expect_verdict(verdict);
    EXPECT_EQ(events("restart").size(), restarts);
    expect_times();
    expect_nothing_left();
  }

  pid_t agent_ = 0;
  RecoveryTimes times_;
};

}  // namespace tessera::testing
