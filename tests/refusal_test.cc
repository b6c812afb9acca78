// Every bad input ends with an exit code and one message that names the place, the value and the
// fix; nothing crashes, hangs or trains on it.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "checkpoint/testing/safetensors_bytes.h"
#include "support/command.h"

namespace tessera {
namespace {

using testing::CommandResult;
using testing::little_endian;
using testing::read_file;
using testing::safetensors_bytes;
using testing::TestFolder;
using testing::tiny_run_file;

class RefusalTest : public ::testing::Test {
 protected:
  RefusalTest() { folder_.write("run.toml", tiny_run_file()); }

  void expect_refused(int code, const std::string& line, const std::vector<std::string>& parts) {
    SCOPED_TRACE("tessera " + line);
    const CommandResult result = testing::tessera(folder_, line);
    EXPECT_EQ(result.code, code) << result.err;
    // The last line, since a run may have shown progress before.
    const size_t message = result.err.find("tessera: error: ");
    EXPECT_TRUE(message == 0 || (message != std::string::npos && result.err[message - 1] == '\n'))
        << result.err;
    for (const std::string& part : parts) {
      EXPECT_NE(result.err.find(part), std::string::npos)
          << "no '" << part << "' in: " << result.err;
    }
    EXPECT_EQ(result.err.find("bug in Tessera"), std::string::npos) << result.err;
  }

  // The run file with one text put in place of another.
  void edit(const std::string& from, const std::string& to) {
    std::string text = tiny_run_file();
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    folder_.write("run.toml", text.replace(at, from.size(), to));
  }

  TestFolder folder_;
};

TEST_F(RefusalTest, UnknownKeysHavePlaceAndSuggestion) {
  edit("hidden = 16", "hiden = 16");
  expect_refused(2, "plan run.toml",
                 {"run.toml:3:1: unknown key 'hiden' in [model]; did you mean 'hidden'?"});
  edit("[train]", "[trian]");
  expect_refused(2, "plan run.toml", {"run.toml:16:", "trian", "did you mean 'train'?"});
  edit("steps = 2", "steps = = 2");
  expect_refused(2, "plan run.toml", {"run.toml:20:"});
  folder_.write("run.toml", tiny_run_file());
  expect_refused(2, "plan run.toml --set train.step=3",
                 {"--set train.step=3: unknown key 'step' in [train]; did you mean 'steps'?"});
}

TEST_F(RefusalTest, ModelsThatCanOnlyBePlanned) {
  for (const std::string command :
       {"train run.toml", "plan run.toml", "verify run.toml --mesh dp=2"}) {
    expect_refused(2, command + " --set model.positions=alibi",
                   {"model.positions = \"alibi\" can be planned but not trained"});
    expect_refused(2, command + " --set model.parallel_block=true",
                   {"model.parallel_block = true"});
  }
  expect_refused(2, "plan run.toml --set model.preset=lama-3-8b",
                 {"unknown model preset", "did you mean 'llama-3-8b'?"});
  folder_.write("a.toml", "extends = \"b.toml\"\n");
  folder_.write("b.toml", "extends = \"a.toml\"\n");
  expect_refused(2, "explain memory --model a.toml", {"a circle: a.toml extends b.toml"});
}

TEST_F(RefusalTest, WrongTypesAndRanges) {
  edit("steps = 2", "steps = \"two\"");
  expect_refused(2, "train run.toml",
                 {"run.toml:20:9: train.steps must be an integer, got string \"two\""});
  edit("dtype = \"f32\"", "dtype = \"f8\"");
  expect_refused(2, "train run.toml", {"run.toml:21:9:", "f8", "f32", "bf16", "f16"});
  edit("zero = 1", "zero = 4");
  expect_refused(2, "train run.toml", {"run.toml:13:8:", "4", "from 0 to 3"});
}

TEST_F(RefusalTest, ImpossibleMeshes) {
  expect_refused(2, "plan run.toml --ranks 8",
                 {"the mesh dp=2 x tp=2 needs 4 ranks but --ranks is 8", "dp=4,tp=2", "dp=2,tp=4"});
  expect_refused(2, "train run.toml --ranks 3", {"needs 4 ranks but --ranks is 3", "dp=3"});
  expect_refused(2, "plan run.toml --mesh tp=3",
                 {"parallel.tp = 3 does not divide heads = 4; use tp = 2 or 4"});
  expect_refused(2, "plan run.toml --mesh tq=2", {"tq", "tp"});
  expect_refused(2, "plan run.toml --mesh pp=64",
                 {"64 stages for", "every stage needs a layer", "use fewer stages"});
}

TEST_F(RefusalTest, BatchesThatDoNotDivide) {
  expect_refused(2, "plan run.toml --set train.seq_len=9",
                 {"sequence_parallel", "9 tokens over tp = 2", "use seq_len = 8 or 10"});
  expect_refused(2, "plan run.toml --set train.global_batch=5",
                 {"train.global_batch = 5", "use global_batch = 4 or 6"});
}

TEST_F(RefusalTest, DataThatCannotBeTrainedOn) {
  folder_.write("empty.txt", "");
  folder_.write("short.txt", "12345678");
  std::filesystem::create_directory(folder_.path("folder"));
  expect_refused(2, "train run.toml --set data.path=empty.txt", {"'empty.txt' is empty"});
  expect_refused(2, "train run.toml --set data.path=folder", {"'folder' is empty"});
  expect_refused(2, "train run.toml --set data.path=none.txt", {"'none.txt' does not exist"});
  expect_refused(2, "train run.toml --set data.path=short.txt",
                 {"'short.txt' has 8 tokens", "seq_len + 1 = 9", "shorter seq_len"});
  expect_refused(2, "train run.toml --set model.vocab=255",
                 {"model.vocab is 255", "use vocab >= 256"});
  EXPECT_FALSE(std::filesystem::exists(folder_.path("out")));
}

TEST_F(RefusalTest, ARunDirectoryThatCannotBeMade) {
  folder_.write("file", "in the way");
  expect_refused(2, "train run.toml --set logging.run_dir=file/run",
                 {"'file/run'", "set logging.run_dir"});
  expect_refused(2, "train run.toml --set logging.run_dir=file", {"'file'", "logging.run_dir"});
  EXPECT_EQ(read_file(folder_.path("file")), "in the way");
}

TEST_F(RefusalTest, ARunThatDoesNotFit) {
  expect_refused(3, "plan run.toml --check --set cluster.memory_gib=0.001 --set model.vocab=20000",
                 {"does not fit: rank 0 (dp0 tp0; ", "needs", "but has 1.0 MiB", "too much",
                  "the largest part is", "the nearest that was planned:\n  --set "});
  EXPECT_EQ(testing::tessera(folder_, "plan run.toml --check").code, 0);
}

TEST_F(RefusalTest, NanEndsTheRunWithItsOrigin) {
  expect_refused(4,
                 "train run.toml --set train.steps=5 --inject nan:tensor=layers.1.kv,step=3,rank=2",
                 {"at step 3", "'layers.1.kv'", "rank 2 (dp1 tp0)", "optimizer.lr"});
  const std::vector<nlohmann::json> metrics =
      testing::read_metrics(folder_.path("out/metrics.jsonl"));
  ASSERT_EQ(metrics.size(), 3U);
  EXPECT_EQ(metrics[1].at("step"), 2);
  EXPECT_TRUE(metrics[1].at("loss").is_number());
  EXPECT_EQ(metrics[2].at("event"), "nan");
  EXPECT_EQ(metrics[2].at("step"), 3);
  for (const char* file : {"config.toml", "resolved.json", "plan.json"}) {
    EXPECT_TRUE(std::filesystem::exists(folder_.path("out/" + std::string(file)))) << file;
  }
}

TEST_F(RefusalTest, ADivergedRunDoesNotKeepTheResultsOfTheRunBefore) {
  ASSERT_EQ(testing::tessera(folder_, "train run.toml").code, 0);
  ASSERT_TRUE(std::filesystem::exists(folder_.path("out/summary.json")));
  expect_refused(4, "train run.toml --overwrite --inject nan:tensor=layers.1.kv,step=1",
                 {"at step 1"});
  EXPECT_FALSE(std::filesystem::exists(folder_.path("out/summary.json")));
  EXPECT_FALSE(std::filesystem::exists(folder_.path("out/config.json")));
}

TEST_F(RefusalTest, MistakesOnTheCommandLine) {
  expect_refused(2, "trian run.toml", {"unknown command 'trian'; did you mean 'train'?"});
  expect_refused(2, "plan run.toml --rnaks 4", {"unknown option '--rnaks'", "'--ranks'"});
  expect_refused(2, "data snyth", {"unknown command 'snyth'; did you mean 'synth'?"});
  expect_refused(2, "plan none.toml", {"cannot open 'none.toml'"});
  expect_refused(2, "generate --run none --prompt x", {"'none' does not exist"});
  expect_refused(2, "verify run.toml", {"--mesh"});
}

// Weights: a small folder in Hugging Face's layout, damaged in one way at a time.
class RefusedWeightsTest : public RefusalTest {
 protected:
  RefusedWeightsTest() {
    std::filesystem::copy(std::string(TESSERA_SOURCE_DIR) + "/tests/data/hf/llama-gqa",
                          folder_.path("hf"));
    const std::string bytes = read_file(folder_.path("hf/model.safetensors"));
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    header_ = nlohmann::json::parse(bytes.substr(sizeof length, length));
    data_ = bytes.substr(sizeof length + length);
    make_vocabulary_of_bytes();
    folder_.write("run.toml", "[model]\nhf = \"hf\"\n[train]\nseq_len = 8\n");
  }

  // Grows embedding and head from 44 rows to the 256 that text needs.
  void make_vocabulary_of_bytes() {
    nlohmann::json config = nlohmann::json::parse(read_file(folder_.path("hf/config.json")));
    config["vocab_size"] = 256;
    folder_.write("hf/config.json", config.dump());
    for (const char* name : {"model.embed_tokens.weight", "lm_head.weight"}) {
      header_.erase(name);
    }
    std::string data;
    for (auto& [name, entry] : header_.items()) {
      if (name == "__metadata__") continue;
      const auto begin = entry["data_offsets"][0].get<size_t>();
      const auto end = entry["data_offsets"][1].get<size_t>();
      const size_t start = data.size();
      data += data_.substr(begin, end - begin);
      entry["data_offsets"] = {start, data.size()};
    }
    for (const char* name : {"model.embed_tokens.weight", "lm_head.weight"}) {
      const size_t start = data.size();
      data += std::string(256 * 16 * 4, '\0');
      header_[name] = {
          {"dtype", "F32"}, {"shape", {256, 16}}, {"data_offsets", {start, data.size()}}};
    }
    data_ = data;
    write_weights(header_);
  }

  void write_weights(const nlohmann::json& header) {
    folder_.write("hf/model.safetensors", safetensors_bytes(header.dump(), data_));
  }
  void expect_weights_refused(int code, const std::vector<std::string>& parts) {
    expect_refused(code, "train run.toml --set train.steps=1", parts);
  }

  nlohmann::json header_;
  std::string data_;
};

constexpr const char* kNorm = "model.layers.0.input_layernorm.weight";

TEST_F(RefusedWeightsTest, TheUndamagedFolderTrains) {
  const CommandResult result = testing::tessera(folder_, "train run.toml --set train.steps=1");
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST_F(RefusedWeightsTest, DamagedFiles) {
  const std::string whole = read_file(folder_.path("hf/model.safetensors"));
  folder_.write("hf/model.safetensors", whole.substr(0, whole.size() - 5));
  expect_weights_refused(1, {"hf/model.safetensors", "truncated"});
  folder_.write("hf/model.safetensors", whole.substr(0, 6));
  expect_weights_refused(1, {"hf/model.safetensors", "only 6 bytes"});
  folder_.write("hf/model.safetensors", little_endian(uint64_t{1} << 60) + whole.substr(8));
  expect_weights_refused(1, {"hf/model.safetensors", "header of 1152921504606846976 bytes"});
  folder_.write("hf/model.safetensors", little_endian(1'000'000) + whole.substr(8));
  expect_weights_refused(1, {"hf/model.safetensors", "truncated"});
  folder_.write("hf/model.safetensors", whole.substr(0, 20) + "\xff\xfe" + whole.substr(22));
  expect_weights_refused(1, {"hf/model.safetensors"});
  std::filesystem::remove(folder_.path("hf/model.safetensors"));
  expect_weights_refused(2, {"'hf' has no weights", "model.safetensors", "model.init"});
  EXPECT_FALSE(std::filesystem::exists(folder_.path("runs")));
}

TEST_F(RefusedWeightsTest, OverlappingTensors) {
  nlohmann::json header = header_;
  header["lm_head.weight"]["data_offsets"] = header["model.embed_tokens.weight"]["data_offsets"];
  write_weights(header);
  expect_weights_refused(1, {"hf/model.safetensors", "overlaps"});
}

TEST_F(RefusedWeightsTest, WrongTypes) {
  nlohmann::json header = header_;
  header[kNorm]["dtype"] = "F23";
  write_weights(header);
  expect_weights_refused(1, {kNorm, "unknown dtype", "F23"});
  header[kNorm]["dtype"] = "C64";  // a known type, twice as wide
  write_weights(header);
  expect_weights_refused(1, {kNorm, "C64"});
}

TEST_F(RefusedWeightsTest, MissingExtraAndMisshapenTensors) {
  nlohmann::json header = header_;
  header["model.layers.0.surprise.weight"] = header[kNorm];
  header.erase(kNorm);
  write_weights(header);
  expect_weights_refused(1, {"missing (1): " + std::string(kNorm),
                             "unmapped (1): \"model.layers.0.surprise.weight\""});
  header = header_;
  header["lm_head.weight"]["shape"] = {128, 32};
  write_weights(header);
  expect_weights_refused(1, {"lm_head.weight", "[128, 32]", "[256, 16]"});
}

// Sizes that no machine has: whoever took memory before looking at the files could not say this.
TEST_F(RefusedWeightsTest, ShapesAreComparedBeforeMemoryIsTaken) {
  nlohmann::json config = nlohmann::json::parse(read_file(folder_.path("hf/config.json")));
  config["head_dim"] = 1'000'000'000;
  folder_.write("hf/config.json", config.dump());
  expect_weights_refused(1, {"self_attn.", "has shape", "but the model needs"});
  const std::string golden =
      std::string(TESSERA_SOURCE_DIR) + "/tests/data/hf/llama-gqa/golden.safetensors";
  expect_refused(1, "verify --hf hf --golden " + golden,
                 {"self_attn.", "has shape", "but the model needs"});
}

TEST_F(RefusedWeightsTest, OtherModels) {
  nlohmann::json config = nlohmann::json::parse(read_file(folder_.path("hf/config.json")));
  config["model_type"] = "mamba";
  folder_.write("hf/config.json", config.dump());
  expect_weights_refused(2, {"run.toml:2:6:", "hf/config.json", "mamba", "llama"});
  folder_.write("hf/config.json", "{\"model_type\": \"llama\"");
  expect_weights_refused(2, {"hf/config.json"});
  std::filesystem::remove(folder_.path("hf/config.json"));
  expect_weights_refused(2, {"hf/config.json"});
}

TEST_F(RefusedWeightsTest, AVocabularySmallerThanBytes) {
  const std::string model = std::string(TESSERA_SOURCE_DIR) + "/tests/data/hf/llama-gqa";
  expect_refused(2, "train run.toml --set model.hf=" + model,
                 {"model.vocab is 44", "use vocab >= 256"});
}

}  // namespace
}  // namespace tessera
