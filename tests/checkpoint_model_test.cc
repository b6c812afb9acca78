// Commands that take a run take a checkpoint of it as well, whatever mesh saved it.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/crc32c.h"
#include "base/testing/test_folder.h"
#include "support/command.h"

namespace tessera {
namespace {

using testing::CommandResult;
using testing::read_file;
namespace fs = std::filesystem;

class CheckpointModelTest : public testing::CommandTest {
 protected:
  // Two steps, with a checkpoint of the last one; the weights at the end of the run are the same.
  void train(const std::string& model, const std::string& flags) {
    folder_.write("run.toml", "[model]\n" + model +
                                  "\n[train]\nseq_len=8\nglobal_batch=4\nsteps=2\n"
                                  "[optimizer]\nlr=1e-2\n[checkpoint]\nevery=2\n");
    succeed("train run.toml -q --overwrite --threads --set logging.run_dir=run " + flags);
  }
  static std::string small_model() { return "layers=2\nhidden=16\nffn=32\nheads=2\nvocab=256"; }
  static std::string hf(const std::string& name) {
    return fmt::format("hf=\"{}/tests/data/hf/{}\"\nvocab=256\ninit=\"random\"", TESSERA_SOURCE_DIR,
                       name);
  }

  void expect_same_export() {
    fs::remove_all(folder_.path("a"));
    fs::remove_all(folder_.path("b"));
    succeed("export-hf run a --shard-size 20kB");
    succeed("export-hf run/checkpoints/step-00000002 b --shard-size 20kB");
    size_t files = 0;
    for (const auto& entry : fs::directory_iterator(folder_.path("a"))) {
      const std::string name = entry.path().filename().string();
      EXPECT_TRUE(read_file(folder_.path("a/" + name)) == read_file(folder_.path("b/" + name)))
          << name;
      ++files;
    }
    EXPECT_GE(files, 3U);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path("b")), {}),
              static_cast<int64_t>(files));
    EXPECT_FALSE(fs::exists(folder_.path("b.weights")));
  }

  CommandResult refused(const std::string& line, int code, const std::string& word) {
    CommandResult result = run(line);
    EXPECT_EQ(result.code, code) << line << "\n" << result.err;
    EXPECT_NE(result.err.find(word), std::string::npos) << line << "\n" << result.err;
    return result;
  }
  const std::string kOne = "run/checkpoints/step-00000002";
};

TEST_F(CheckpointModelTest, ExportIsThatOfTheRun) {
  for (const std::string flags : {"", "--mesh tp=2", "--mesh fsdp=2,zero=3 --set train.dtype=bf16",
                                  "--mesh pp=2 --set model.tied=true --set train.dtype=f16"}) {
    SCOPED_TRACE(flags);
    train(small_model(), flags);
    expect_same_export();
  }
}

// Families whose files keep tensors side by side, transposed, or by experts.
TEST_F(CheckpointModelTest, ExportKnowsTheLayoutsOfFamilies) {
  for (const std::string name : {"gpt2", "mixtral", "qwen2"}) {
    SCOPED_TRACE(name);
    folder_.write("text", std::string(400, '\x05'));
    train(hf(name), "--mesh dp=2 --set data.path=text");
    expect_same_export();
  }
}

TEST_F(CheckpointModelTest, GenerateEvalAndVerifyReadOneOrTheNewest) {
  train(small_model(), "--mesh dp=2,zero=1 --set train.dtype=bf16");
  folder_.write("text.txt", std::string(300, 'e') + "nd of it");
  const auto score = [&](const std::string& model) {
    return succeed("eval " + model + " --data text.txt --json").json().at("sets");
  };
  for (const std::string& path : {kOne + "/", std::string("run/checkpoints")}) {
    SCOPED_TRACE(path);
    EXPECT_EQ(succeed("generate --prompt abc --tokens 3 --run " + path).out,
              succeed("generate --prompt abc --tokens 3 --run run").out);
    EXPECT_EQ(score(path), score("run"));
    const nlohmann::json report = succeed("verify --json --mesh tp=2 --hf " + path).json();
    EXPECT_GT(report.at("loss").get<double>(), 0);
  }
  // A run that was cut off has no weights of its own.
  fs::remove(folder_.path("run/model.safetensors"));
  succeed("generate --prompt abc --tokens 2 --run run/checkpoints");
  EXPECT_NE(run("generate --prompt abc --run run").err.find("one of its checkpoints"),
            std::string::npos);
}

TEST_F(CheckpointModelTest, ACheckpointAloneSaysWhichModelItIsOf) {
  train(small_model(), "");
  fs::rename(folder_.path("run/checkpoints"), folder_.path("alone"));
  fs::remove_all(folder_.path("run"));
  succeed("export-hf alone/step-00000002 out");
  succeed("eval alone --data run.toml");
}

TEST_F(CheckpointModelTest, DamagedAbsentAndNewerOnesHaveTheirCodes) {
  train(small_model(), "--set checkpoint.every=1");
  const std::vector<std::string> commands = {"export-hf {} out", "generate --prompt a --run {}",
                                             "eval {} --data run.toml", "verify --hf {}"};
  const auto all_refuse = [&](const std::string& path, int code, const std::string& word) {
    for (const std::string& command : commands) {
      refused(fmt::format(fmt::runtime(command), path), code, word);
    }
    EXPECT_FALSE(fs::exists(folder_.path("out")));
    EXPECT_FALSE(fs::exists(folder_.path("out.weights")));
  };
  all_refuse("run/checkpoints/step-00000009", 66, "step-00000009' does not exist");

  const std::string shard = folder_.path(kOne + "/data-0000-of-0001.safetensors");
  const std::string good = read_file(shard);
  std::string bad = good;
  bad[bad.size() / 2] = static_cast<char>(bad[bad.size() / 2] ^ 1);
  folder_.write(kOne + "/data-0000-of-0001.safetensors", bad);
  all_refuse(kOne, 65, "data-0000-of-0001.safetensors' is damaged: block 0");
  folder_.write(kOne + "/data-0000-of-0001.safetensors", good.substr(0, good.size() - 1));
  all_refuse(kOne, 65, "data-0000-of-0001.safetensors");
  // The one before it is not taken without a word.
  all_refuse("run/checkpoints", 65, "name one to use it nevertheless");
  folder_.write(kOne + "/data-0000-of-0001.safetensors", good);

  const std::string commit = read_file(folder_.path(kOne + "/COMMIT"));
  fs::remove(folder_.path(kOne + "/COMMIT"));
  all_refuse(kOne, 66, "COMMIT");
  // COMMIT is read first, and says the version.
  nlohmann::json newer = nlohmann::json::parse(commit.substr(0, commit.find('\n')));
  newer["version"] = {2, 0};
  const std::string body = newer.dump() + "\n";
  folder_.write(kOne + "/COMMIT", body + fmt::format("crc32c {:08x}\n", crc32c(body)));
  all_refuse(kOne, 76,
             "version 2.0 of the format of checkpoints, but this Tessera reads version 1");
}

TEST_F(CheckpointModelTest, AForeignTokenizerIsRefusedWithBothValues) {
  succeed("data synth --bytes 20000 -o text.txt");
  succeed("data tokenizer train text.txt --vocab 300 --out tok");
  succeed("data prepare text.txt --tokenizer tok --out set");
  train("layers=1\nhidden=16\nffn=32\nheads=2\nvocab=300", "--set data.train=set");
  succeed("generate --prompt abc --tokens 2 --run " + kOne);
  expect_same_export();
  folder_.write("run/tokenizer.json", read_file(folder_.path("run/tokenizer.json")) + "\n");
  refused("generate --prompt abc --run " + kOne, 2, "was trained with a tokenizer of SHA-256 ");
  refused("export-hf " + kOne + " out", 2, "they do not belong together");
  fs::remove(folder_.path("run/tokenizer.json"));
  refused("generate --prompt abc --run " + kOne, 2, "lies in no run directory that has it");
  refused("eval --data text.txt --limit 2 " + kOne, 2, "but none is beside it");
  succeed("eval --data text.txt --limit 2 --tokenizer tok " + kOne);
  fs::create_directories(folder_.path("other"));
  folder_.write("other/tokenizer.json", read_file(folder_.path("tok/tokenizer.json")) + "\n");
  refused("eval --data text.txt --limit 2 --tokenizer other " + kOne, 2, "but 'other' has ");
  refused("verify --set train.seq_len=4 --hf " + kOne, 2, "says itself what its model is");
}

// What a store made without a run in it cannot say.
TEST_F(CheckpointModelTest, OneThatSaysNothingOfItsModelIsRefused) {
  refused(fmt::format("export-hf {}/tests/data/checkpoints/step-00000012 out", TESSERA_SOURCE_DIR),
          65, "state.json' is damaged: it does not say which model it is of");
}

}  // namespace
}  // namespace tessera
