// Run directories as users meet them: who may write there, what is kept, what can be done with one.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/command.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using namespace testing;  // the words of tests
using nlohmann::json;

constexpr const char* kEndless = "train run.toml -q --set train.steps=1000000 ";

class RunDirectoryTest : public CommandTest {
 protected:
  RunDirectoryTest() {
    const std::string text = tiny_run_file();
    folder_.write("run.toml", text);
    folder_.write("mine.toml", text.substr(0, text.find("[logging]")));
  }

  [[nodiscard]] bool exists(const std::string& name) const {
    return fs::exists(folder_.path(name));
  }
  [[nodiscard]] std::string read(const std::string& name) const {
    return read_file(folder_.path(name));
  }
  [[nodiscard]] std::vector<json> losses(const std::string& run_dir) const {
    std::vector<json> result;
    for (const json& line : read_metrics(folder_.path(run_dir + "/metrics.jsonl"))) {
      result.push_back({line.at("loss"), line.at("grad_norm")});
    }
    return result;
  }
  void wait_for_a_step(const std::string& run_dir) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (read(run_dir + "/metrics.jsonl").empty()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "it does not train";
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  void expect_refused(const std::string& line, const std::vector<std::string>& words) {
    const CommandResult result = run(line);
    EXPECT_EQ(result.code, 2) << line << "\n" << result.err;
    for (const std::string& word : words) {
      EXPECT_NE(result.err.find(word), std::string::npos) << word << " in\n" << result.err;
    }
  }
};

TEST_F(RunDirectoryTest, OneThatIsInUseIsRefusedAndSaysByWhom) {
  for (const std::string how : {"", "--threads"}) {
    SCOPED_TRACE(how);
    fs::remove_all(folder_.path("out"));
    CommandOptions options;
    options.output = "first";
    Command first(folder_, words_of(kEndless + how), options);
    wait_for_a_step("out");
    const std::string who = fmt::format("in use by pid {} on host ", first.pid());
    for (const std::string second : {"", " --threads", " --dry-run"}) {
      expect_refused("train run.toml --overwrite" + second, {"'out'", who});
    }
    first.signal(SIGINT);
    EXPECT_EQ(first.finish().code, 130);
    const json summary = json::parse(read("out/summary.json"));
    EXPECT_EQ(summary.at("steps"), read_metrics(folder_.path("out/metrics.jsonl")).size());
    EXPECT_FALSE(exists("out/run.lock"));
  }
}

TEST_F(RunDirectoryTest, ARunThatWasKilledHoldsNoLock) {
  Command first(folder_, words_of(kEndless));
  wait_for_a_step("out");
  first.signal(SIGKILL);
  first.finish();
  expect_refused("train run.toml", {"'out' holds a run (metrics.jsonl)"});
  succeed("train run.toml --overwrite");
  EXPECT_TRUE(exists("out/previous/metrics.jsonl"));
}

// As torchrun starts them: rank 0 finds it, and both end.
TEST_F(RunDirectoryTest, RanksThatSomebodyStartedAreRefusedTogether) {
  succeed("train run.toml --mesh dp=2 --set logging.run_dir=out");
  std::vector<std::unique_ptr<Command>> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    CommandOptions options;
    options.environment = {fmt::format("RANK={}", rank), "WORLD_SIZE=2",
                           "TESSERA_RENDEZVOUS_FILE=" + folder_.path("meeting")};
    options.output = std::to_string(rank);
    ranks.push_back(
        std::make_unique<Command>(folder_, words_of("train run.toml -q --mesh dp=2"), options));
  }
  const CommandResult zero = ranks[0]->finish();
  EXPECT_EQ(zero.code, 2) << zero.err;
  EXPECT_NE(zero.err.find("'out' holds a run"), std::string::npos) << zero.err;
  EXPECT_NE(ranks[1]->finish().code, 0);
}

TEST_F(RunDirectoryTest, NamesComeFromTheRunFileAndAreNumbered) {
  succeed("train mine.toml");
  const std::string first = read("runs/mine/model.safetensors");
  const CommandResult second = succeed("train mine.toml --set train.seed=9");
  EXPECT_NE(second.err.find("this run goes to runs/mine-2, since runs/mine holds one"),
            std::string::npos)
      << second.err;
  EXPECT_NE(second.out.find("\nruns/mine-2: loss "), std::string::npos) << second.out;
  succeed("train mine.toml --threads");
  EXPECT_TRUE(exists("runs/mine-3/summary.json"));
  EXPECT_TRUE(read("runs/mine/model.safetensors") == first);
  EXPECT_FALSE(read("runs/mine-2/model.safetensors") == first);
}

TEST_F(RunDirectoryTest, ADirectoryThatHoldsARunIsRefusedAndKept) {
  succeed("train run.toml");
  const std::string weights = read("out/model.safetensors");
  for (const std::string how : {"", " --threads", " --dry-run"}) {
    expect_refused("train run.toml" + how,
                   {"the run directory 'out' holds a run (model.safetensors)", "--overwrite"});
  }
  EXPECT_TRUE(read("out/model.safetensors") == weights);
}

// Two restarts that are stopped at once.
TEST_F(RunDirectoryTest, RestartsDoNotLoseTrainedWeights) {
  succeed("train run.toml --set train.steps=20");
  const std::string trained = read("out/model.safetensors");
  for (const std::string place : {"out/previous", "out/previous-2"}) {
    Command command(folder_, words_of("train run.toml --overwrite --set train.steps=1000000"));
    wait_for_a_step(place);
    wait_for_a_step("out");
    command.signal(SIGINT);
    const CommandResult result = command.finish();
    EXPECT_EQ(result.code, 130) << result.err;
    EXPECT_NE(result.err.find("the run that was in out is now in " + place), std::string::npos)
        << result.err;
  }
  EXPECT_TRUE(read("out/previous/model.safetensors") == trained);
  EXPECT_TRUE(exists("out/previous-2/model.safetensors"));
  succeed("generate --run out/previous --prompt x --tokens 2");
}

TEST_F(RunDirectoryTest, TheResolvedFileIsTheSameRunAgain) {
  succeed(
      "train mine.toml --set train.steps=4 --set train.seed=5 --set optimizer.lr=0.03 "
      "--mesh fsdp=2,tp=2 --set logging.run_dir=there");
  succeed("train there/resolved.toml");
  EXPECT_EQ(losses("runs/there").size(), 4U);
  EXPECT_EQ(losses("runs/there"), losses("there"));
  EXPECT_TRUE(read("runs/there/model.safetensors") == read("there/model.safetensors"));
  EXPECT_EQ(read("runs/there/resolved.toml"), read("there/resolved.toml"));
  expect_refused("train there/resolved.json", {"this is JSON", "resolved.toml"});
}

TEST_F(RunDirectoryTest, AScheduleFromAFileStaysWithTheRun) {
  succeed("simulate run.toml --schedule-only --mesh pp=2 --set train.global_batch=2 --csv my.csv");
  succeed("train run.toml --mesh pp=2,schedule=my.csv --set train.global_batch=2");
  fs::remove(folder_.path("my.csv"));
  succeed("train out/resolved.toml --set logging.run_dir=again");
  EXPECT_EQ(losses("again"), losses("out"));
}

TEST_F(RunDirectoryTest, IsAHuggingFaceFolder) {
  succeed("train run.toml");
  const std::string start = "train mine.toml --set model.hf=out --set optimizer.lr=1e-30 ";
  succeed(start + "--set logging.run_dir=again");
  EXPECT_TRUE(read("again/model.safetensors") == read("out/model.safetensors"));
  // As runs were written before.
  fs::rename(folder_.path("out/model.safetensors"), folder_.path("out/weights.safetensors"));
  succeed(start + "--set logging.run_dir=old");
  EXPECT_TRUE(read("old/model.safetensors") == read("again/model.safetensors"));
  succeed("generate --run out --prompt x --tokens 2");
  expect_refused("train mine.toml --overwrite --set model.hf=out --set logging.run_dir=out",
                 {"'out' is model.hf"});
}

TEST_F(RunDirectoryTest, FilesHonourTheUmask) {
  const mode_t before = ::umask(0027);
  succeed("train run.toml");
  ::umask(before);
  for (const auto& entry : fs::directory_iterator(folder_.path("out"))) {
    EXPECT_EQ(static_cast<unsigned>(entry.status().permissions()), 0640U) << entry.path();
  }
}

TEST_F(RunDirectoryTest, NoLinkIsFollowedAndNoPipeWaitedFor) {
  folder_.write("victim", "precious");
  fs::create_directory(folder_.path("out"));
  for (const std::string name : {"plan.json.tmp", "resolved.json.tmp", "model.safetensors.tmp"}) {
    fs::create_symlink("../victim", folder_.path("out/" + name));
  }
  succeed("train run.toml");
  for (const std::string name : {"metrics.jsonl", "plan.json", "run.lock", "model.safetensors"}) {
    fs::create_directory(folder_.path("of-" + name));
    fs::create_symlink("../victim", folder_.path("of-" + name + "/" + name));
    expect_refused("train run.toml --overwrite --set logging.run_dir=of-" + name, {name});
  }
  EXPECT_EQ(read("victim"), "precious");
  fs::create_directory(folder_.path("pipe"));
  ASSERT_EQ(::mkfifo(folder_.path("pipe/metrics.jsonl").c_str(), 0600), 0);
  expect_refused("train run.toml --set logging.run_dir=pipe", {"metrics.jsonl' is a named pipe"});
}

TEST_F(RunDirectoryTest, TheLastLinesSayWhereItIsAndWhatIsNext) {
  const std::string out = succeed("train run.toml").out;
  const json summary = json::parse(read("out/summary.json"));
  const std::string expected =
      fmt::format("\nout: loss {:.4f} after 2 steps, ", summary.at("final_loss").get<double>());
  EXPECT_NE(out.find(expected), std::string::npos) << out;
  EXPECT_TRUE(out.ends_with("\nNext: tessera generate --run out --prompt \"Once upon a time\"\n"))
      << out;
}

TEST_F(RunDirectoryTest, ResumingIsAnswered) {
  for (const std::string flags :
       {"--continue", "--resume-from out", "--load-checkpoint out", "--restart"}) {
    expect_refused("train run.toml " + flags, {"with --resume auto", "--set model.hf=runs/NAME"});
  }
}

}  // namespace
}  // namespace tessera
