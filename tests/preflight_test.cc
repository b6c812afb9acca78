// What is known to go wrong is said before anything starts, by `train` and by `train --dry-run`
// alike: with one message, the documented exit code, and nothing written.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

#include "comm/shm/host_memory.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"
#include "support/command.h"
#include "train/preflight/run_outputs.h"

namespace tessera {
namespace {

using namespace testing;  // the words of tests

// Four ranks of it need far more than any machine that compiles this.
constexpr const char* kTooLarge =
    "--set model.hidden=65536 --set model.ffn=262144 --set model.heads=64 --set model.kv_heads=64";

class PreflightTest : public CommandTest {
 protected:
  PreflightTest() { folder_.write("run.toml", tiny_run_file()); }

  // In every way to start ranks here, and without starting any.
  void expect_refused(int code, const std::string& line, const std::vector<std::string>& parts) {
    for (const std::string how : {"", " --threads", " --dry-run"}) {
      SCOPED_TRACE("tessera train run.toml " + line + how);
      const CommandResult result = run("train run.toml -q " + line + how);
      EXPECT_EQ(result.code, code) << result.err;
      for (const std::string& part : parts) {
        EXPECT_NE(result.err.find(part), std::string::npos) << part << " in\n" << result.err;
      }
      EXPECT_EQ(result.err.find("the last call of rank"), std::string::npos) << result.err;
      EXPECT_EQ(result.err.find("rank 1:"), std::string::npos) << "found by a rank: " << result.err;
      EXPECT_FALSE(std::filesystem::exists(folder_.path("out"))) << "something was written";
    }
  }
};

TEST_F(PreflightTest, ARunThatIsLargerThanTheMachine) {
  expect_refused(3, kTooLarge,
                 {"does not fit: rank 0 (", " needs ", " but has ", ", shared by 4 ranks, and ",
                  "the largest part is ", "--force"});
}

// Settings with which a rank of a replicated run needs this share of what is free: f32 weights,
// gradients and two moments of a vocabulary, 16 bytes for each of its 16 columns, twice, since
// nothing is tied.
std::string rank_that_needs(double share) {
  const auto bytes =
      static_cast<int64_t>(static_cast<double>(host_memory().available_bytes) * share);
  return fmt::format(" --set model.vocab={} --set train.loss_chunk=8 ",
                     bytes / (16 * 16 * 2) / 64 * 64);
}

// Ranks that are threads of other commands take their memory at once too.
TEST_F(PreflightTest, OtherCommandsOfARunThatIsLargerThanTheMachine) {
  for (const std::string command : {"verify run.toml --mesh dp=2 ", "bench step run.toml "}) {
    const CommandResult result = run(command + kTooLarge);
    EXPECT_EQ(result.code, 3) << command << result.err;
    EXPECT_NE(result.err.find("does not fit: "), std::string::npos) << result.err;
  }
  const CommandResult result = run("bench step run.toml --mesh dp=4,zero=0" + rank_that_needs(0.4));
  EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_NE(result.err.find("shared by 4 ranks"), std::string::npos) << result.err;
}

TEST_F(PreflightTest, RanksAreAddedUp) {
  const std::string settings = rank_that_needs(0.4);
  expect_refused(3, "--mesh dp=4,zero=0" + settings, {"does not fit: rank 0 ("});
  const CommandResult alone = run("train run.toml -q --dry-run --mesh dp=1,zero=0" + settings);
  EXPECT_EQ(alone.code, 0) << alone.err;
}

// Ranks that somebody starts one by one, as torchrun does, add themselves up.
TEST_F(PreflightTest, SoAreRanksThatOthersStarted) {
  const std::string settings = rank_that_needs(0.4);
  if (look_at_folder(folder_.path()).free_bytes < host_memory().available_bytes / 4) {
    GTEST_SKIP() << "the disk is too full for the weights of such a run";
  }
  std::vector<std::unique_ptr<Command>> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    CommandOptions options;
    options.environment = {fmt::format("RANK={}", rank), "WORLD_SIZE=4",
                           "TESSERA_RENDEZVOUS_FILE=" + folder_.path("meeting")};
    options.output = std::to_string(rank);
    ranks.push_back(std::make_unique<Command>(
        folder_, words_of("train run.toml -q --mesh dp=4,zero=0" + settings), options));
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const CommandResult result = ranks[rank]->finish();
    EXPECT_EQ(result.code, 3) << result.err;
    EXPECT_NE(result.err.find(rank == 0 ? "does not fit: rank 0 (dp0; 4 ranks need as much)"
                                        : "does not fit: the 4 ranks on host "),
              std::string::npos)
        << result.err;
  }
  EXPECT_FALSE(std::filesystem::exists(folder_.path("out")));
}

TEST_F(PreflightTest, ForceMakesItAWarning) {
  const CommandResult result = run(std::string("train run.toml --dry-run --force ") + kTooLarge);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("tessera: warning: does not fit: rank 0 ("), std::string::npos)
      << result.err;
}

TEST_F(PreflightTest, TextAndVocabulary) {
  expect_refused(2, "--set data.path=nope.txt", {"data 'nope.txt' does not exist"});
  folder_.write("empty.txt", "");
  expect_refused(2, "--set data.path=empty.txt", {"data 'empty.txt' is empty"});
  folder_.write("short.txt", "too short");
  expect_refused(2, "--set data.path=short.txt --set train.seq_len=64",
                 {"data 'short.txt' has 9 tokens but one sample needs seq_len + 1 = 65"});
  expect_refused(2, "--set data.synth.bytes=4", {"has 4 tokens but one sample needs"});
  expect_refused(2, "--set model.vocab=128", {"model.vocab is 128 but the data has 256"});
}

TEST_F(PreflightTest, FoldersThatCannotBeMade) {
  folder_.write("file", "x");
  expect_refused(2, "--set logging.run_dir=file/runs",
                 {"'file': Not a directory", "logging.run_dir"});
  const CommandResult logs = run("train run.toml -q --dry-run --log-dir file/logs");
  EXPECT_EQ(logs.code, 2);
  EXPECT_NE(logs.err.find("set --log-dir"), std::string::npos) << logs.err;
}

TEST_F(PreflightTest, WhatARunIsToGoOnFrom) {
  expect_refused(66, "--resume nowhere", {"error: 'nowhere' is no folder: name a checkpoint"});
  std::filesystem::create_directory(folder_.path("empty"));
  expect_refused(66, "--resume empty", {"error: 'empty' holds no checkpoint"});
  succeed("train run.toml -q --threads --set checkpoint.every=1 --set logging.run_dir=first");
  expect_refused(2, "--resume first --set train.seed=9",
                 {"error: cannot go on from", "train.seed"});
  for (const std::string step : {"step-00000001", "step-00000002"}) {
    folder_.write("first/checkpoints/" + step + "/manifest.json", "{}");
  }
  expect_refused(65, "--resume first",
                 {"step-00000002 is passed over", "step-00000001 is passed over", "is damaged"});
}

// Nothing is trained, and the run says so.
TEST_F(PreflightTest, ARunThatHasDoneItsStepsGoesOnWithMore) {
  const std::string go_on = "train run.toml -q --threads --set checkpoint.every=1 --resume auto";
  succeed(go_on);
  const CommandResult done = succeed(go_on);
  EXPECT_NE(done.err.find("train.steps = 2: nothing is left to do; a larger one goes on"),
            std::string::npos)
      << done.err;
  EXPECT_NE(done.out.find("after 2 steps, 0 s\n"), std::string::npos) << done.out;
  EXPECT_EQ(succeed(go_on + " --set train.steps=3").err.find("nothing is left"), std::string::npos);
}

TEST_F(PreflightTest, ADeviceThatIsNotHere) {
  const CommandResult doctor = run("doctor --json");
  if (!doctor.json().contains("gpu")) GTEST_SKIP() << "this machine has a GPU";
  expect_refused(2, "--set train.device=cuda", {"cuda"});
}

// The weights of a run, as a folder to begin with.
class FolderOfWeightsTest : public PreflightTest {
 protected:
  FolderOfWeightsTest() {
    succeed("train run.toml -q --set logging.run_dir=trained");
    std::filesystem::create_directory(folder_.path("model"));
    for (const auto& [from, to] : {std::pair{"trained/config.json", "model/config.json"},
                                   std::pair{"trained/model.safetensors", "weights"}}) {
      std::filesystem::copy_file(folder_.path(from), folder_.path(to));
    }
    std::string text = tiny_run_file();
    text.replace(text.find("[model]"), text.find("[parallel]") - text.find("[model]"),
                 "[model]\nhf = \"model\"\n\n");
    folder_.write("run.toml", text);
  }
  void put_weights() {
    std::filesystem::copy_file(folder_.path("weights"), folder_.path("model/model.safetensors"));
  }
};

TEST_F(FolderOfWeightsTest, AConfigAloneIsTrainedFromRandomWeights) {
  expect_refused(2, "", {"folder 'model' has no weights", "model.init = \"random\""});
  const CommandResult result = succeed("train run.toml --json -q --set model.init=random");
  EXPECT_EQ(result.json().at("steps"), 2);
}

TEST_F(FolderOfWeightsTest, TheWeightsMustBeTheModels) {
  put_weights();
  succeed("train run.toml -q --dry-run");
  expect_refused(1, "--set model.layers=3", {"do not fit the model", "missing"});
  expect_refused(1, "--set model.ffn=32", {"has shape", "but the model needs"});
}

// What the disk must have room for is known to the byte.
TEST_F(FolderOfWeightsTest, TheFileIsAsLargeAsWasSaid) {
  RunSpec spec = parse_run_file(tiny_run_file(), "run.toml", {}, {});
  resolve(spec);
  EXPECT_EQ(output_of(spec).weights_bytes,
            static_cast<int64_t>(std::filesystem::file_size(folder_.path("weights"))));
}

}  // namespace
}  // namespace tessera
