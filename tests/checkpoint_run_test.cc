// `train` with [checkpoint] and --resume, as a user calls it: a run that was cut off and goes on
// ends with the bits of the run that nothing happened to.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/testing/share.h"
#include "base/testing/test_folder.h"
#include "checkpoint/store/saves.h"
#include "support/command.h"

namespace tessera {
namespace {

using testing::CommandResult;
using testing::TestFolder;

class CheckpointRunTest : public ::testing::Test {
 protected:
  CheckpointRunTest() {
    folder_.write("run.toml",
                  "[model]\nlayers=2\nhidden=16\nffn=32\nheads=2\nvocab=256\n[train]\nseq_len=8\n"
                  "global_batch=4\nsteps=6\n[data.synth]\nbytes=3000\n[optimizer]\nlr=1e-2\n"
                  "[checkpoint]\nevery=2\nkeep=2\n");
  }
  CommandResult train(const std::string& dir, const std::string& flags) {
    return testing::tessera(folder_, "train run.toml --set logging.run_dir=" + dir + " " + flags);
  }
  // Ends after one step, as a run whose time is up.
  CommandResult begin(const std::string& dir, const std::string& flags) {
    return train(dir, flags + " --max-minutes 0.000001");
  }
  std::string bytes_of(const std::string& name) const {
    std::ifstream file(folder_.path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::vector<std::string> saves_of(const std::string& dir) const {
    std::vector<std::string> names;
    for (const StoredSave& save : list_saves(*real_files(folder_.path(dir + "/checkpoints")))) {
      names.push_back(save.folder);
    }
    return names;
  }

  TestFolder folder_;
};

TEST_F(CheckpointRunTest, GoesOnWithTheSameBits) {
  int number = 0;
  const std::vector<std::string> kinds = {"f32 --threads --set checkpoint.async=false",
                                          "bf16 --threads", "bf16"};
  for (const std::string mesh : {"dp=2", "tp=2", "pp=2", "fsdp=2,zero=3"}) {
    for (const std::string& kind : testing::share_of(kinds, 3)) {
      const std::string flags = "--mesh " + mesh + " --set train.dtype=" + kind;
      SCOPED_TRACE(flags);
      const std::string straight = "a" + std::to_string(++number);
      const std::string cut = "b" + std::to_string(number);
      ASSERT_EQ(train(straight, flags).code, 0);
      ASSERT_EQ(begin(cut, flags).code, 0);
      EXPECT_NE(bytes_of(straight + "/model.safetensors"), bytes_of(cut + "/model.safetensors"));
      const CommandResult resumed = train(cut, flags + " --resume auto");
      ASSERT_EQ(resumed.code, 0) << resumed.err;
      EXPECT_NE(resumed.err.find("goes on after step 1"), std::string::npos) << resumed.err;
      EXPECT_EQ(bytes_of(straight + "/model.safetensors"), bytes_of(cut + "/model.safetensors"));
      // Beside steps that are this short not every save is done when the next is due.
      EXPECT_EQ(saves_of(cut).size(), 2U);
      EXPECT_EQ(saves_of(cut).back(), "step-00000006");
      if (kind.find("async=false") != std::string::npos) {
        EXPECT_EQ(saves_of(cut).front(), "step-00000004");
      }
      const std::string metrics = bytes_of(cut + "/metrics.jsonl");
      EXPECT_EQ(std::count(metrics.begin(), metrics.end(), '\n'), 6);
      EXPECT_NE(bytes_of(cut + "/events.jsonl").find("\"resume\""), std::string::npos);
    }
  }
}

TEST_F(CheckpointRunTest, GoesOnOnAnotherMesh) {
  ASSERT_EQ(train("a", "--threads --set train.dtype=f64").code, 0);
  ASSERT_EQ(begin("b", "--threads --set train.dtype=f64 --mesh tp=2").code, 0);
  const CommandResult resumed =
      train("b", "--threads --set train.dtype=f64 --mesh dp=2,pp=2 --resume auto --json");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  const double straight = nlohmann::json::parse(bytes_of("a/summary.json")).at("final_loss");
  EXPECT_NEAR(resumed.json().at("final_loss").get<double>(), straight, 1e-12);
  EXPECT_EQ(resumed.json().at("resumed_after"), 1);
}

// What a checkpoint of one mesh becomes for another is what that mesh would have read anyway.
TEST_F(CheckpointRunTest, IsCutAnewForAnotherMeshWithTheSameBits) {
  const auto reshard = [&](const std::string& flags) {
    return testing::tessera(folder_, "checkpoint reshard " + flags);
  };
  const std::string bf16 = "--set train.dtype=bf16";
  ASSERT_EQ(train("a", "--threads --mesh dp=2,zero=1 " + bf16).code, 0);
  const CommandResult cut = reshard("a run.toml --mesh pp=2,tp=2 --out cut --json " + bf16);
  ASSERT_EQ(cut.code, 0) << cut.err;
  EXPECT_EQ(cut.json().at("ranks"), 4);
  EXPECT_EQ(cut.json().at("step"), 6);
  EXPECT_EQ(testing::tessera(folder_, "checkpoint diff a cut").code, 0);
  EXPECT_EQ(testing::tessera(folder_, "checkpoint verify cut --deep").code, 0);
  const std::string further = "--threads --set train.steps=8 --mesh pp=2,tp=2 " + bf16;
  ASSERT_EQ(train("b", further + " --resume a").code, 0);
  ASSERT_EQ(train("c", further + " --resume cut").code, 0);
  EXPECT_EQ(bytes_of("b/model.safetensors"), bytes_of("c/model.safetensors"));

  // Nothing is replaced, nothing is lost, and what is not its own is refused.
  const auto refused = [&](const std::string& flags, int code, const std::string& words) {
    SCOPED_TRACE(flags);
    const CommandResult result = reshard(flags);
    EXPECT_EQ(result.code, code);
    EXPECT_NE(result.err.find(words), std::string::npos) << result.err;
  };
  refused("a run.toml --out cut " + bf16, 2, "'cut/step-00000006' is there already");
  refused("a run.toml --out d", 2, "train.dtype is \"bf16\" there, but \"f32\" in this run");
  refused("a run.toml --mesh tp=3 --out d " + bf16, 2, "parallel.tp = 3 does not divide");
  refused("none run.toml --out d", 66, "'none' is no folder");
  EXPECT_FALSE(std::filesystem::exists(folder_.path("d")));
  std::filesystem::resize_file(folder_.path("cut/step-00000006/data-0002-of-0004.safetensors"),
                               100);
  refused("cut/step-00000006 run.toml --out d " + bf16, 65, "data-0002-of-0004.safetensors");
}

TEST_F(CheckpointRunTest, AutoBeginsWhereThereIsNoneAndUsesAnOlderOne) {
  ASSERT_EQ(train("a", "--threads --resume auto --set checkpoint.async=false").code, 0);
  const std::string whole = bytes_of("a/model.safetensors");
  std::filesystem::resize_file(
      folder_.path("a/checkpoints/step-00000006/data-0000-of-0001.safetensors"), 100);
  const CommandResult resumed = train("a", "--threads --resume auto --set checkpoint.async=false");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("step-00000006 is passed over"), std::string::npos) << resumed.err;
  EXPECT_NE(resumed.err.find("goes on after step 4"), std::string::npos) << resumed.err;
  EXPECT_EQ(bytes_of("a/model.safetensors"), whole);
}

TEST_F(CheckpointRunTest, RefusesWhatIsNotItsOwnWithBothValues) {
  ASSERT_EQ(train("a", "--threads --set checkpoint.async=false").code, 0);
  const auto refused = [&](const std::string& dir, const std::string& flags, int code,
                           const std::string& words) {
    SCOPED_TRACE(flags);
    const CommandResult result = train(dir, "--threads " + flags);
    EXPECT_EQ(result.code, code) << result.err;
    EXPECT_NE(result.err.find(words), std::string::npos) << result.err;
  };
  const std::string before = bytes_of("a/resolved.json");
  refused("a", "--resume auto --set model.layers=3", 2, "model.layers is 2 there, but 3");
  refused("a", "--resume auto --set train.seed=9", 2, "train.seed is 1 there, but 9");
  refused("a", "--resume auto --set train.dtype=bf16", 2, "train.dtype is \"f32\" there");
  refused("a", "--resume auto --set train.global_batch=8", 2, "train.global_batch is 4 there");
  refused("a", "--resume nowhere", 66, "is no folder");
  refused("a", "--resume a/checkpoints/step-00000004", 2, "step-00000006 is newer");
  refused("a", "", 2, "holds a run");
  refused("c", "--set checkpoint.dir=a/checkpoints", 2, "holds checkpoints of another run");
  EXPECT_EQ(bytes_of("a/resolved.json"), before);
  const CommandResult branch =
      train("d", "--threads --resume a/checkpoints/step-00000004 --set train.steps=5");
  EXPECT_EQ(branch.code, 0) << branch.err;
  EXPECT_EQ(saves_of("d"), (std::vector<std::string>{"step-00000005"}));
  EXPECT_EQ(saves_of("a"), (std::vector<std::string>{"step-00000004", "step-00000006"}));
}

// Before the first step, not after an hour.
TEST_F(CheckpointRunTest, AFolderThatCannotBeHadEndsTheRunAtOnce) {
  folder_.write("blocked", "");
  const CommandResult refused = train("a", "--threads --set checkpoint.dir=blocked");
  EXPECT_NE(refused.code, 0);
  EXPECT_NE(refused.err.find("blocked"), std::string::npos) << refused.err;
}

}  // namespace
}  // namespace tessera
