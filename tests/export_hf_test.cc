// Models as folders of Hugging Face: every tensor byte for byte, and logits that are the model's.
#include "train/verify/export_hf.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/testing/test_folder.h"
#include "checkpoint/hf_folder.h"
#include "comm/local/local_world.h"
#include "support/command.h"
#include "support/hf_models.h"
#include "train/weights/weights.h"

namespace tessera {
namespace {

using testing::CommandResult;
using testing::read_file;
using testing::TestFolder;
namespace fs = std::filesystem;

std::vector<std::byte> bytes_of(const HfWeights& weights, const std::string& name) {
  const TensorInfo* info = weights.find(name);
  std::vector<std::byte> bytes(static_cast<size_t>(info->end - info->begin));
  weights.read_bytes(name, bytes);
  return bytes;
}

void expect_same_tensors(const std::string& folder, const std::string& other) {
  const HfWeights a = HfWeights::open(folder), b = HfWeights::open(other);
  EXPECT_EQ(a.names(), b.names());
  for (const std::string& name : a.names()) {
    ASSERT_NE(b.find(name), nullptr) << name;
    EXPECT_EQ(a.find(name)->shape, b.find(name)->shape) << name;
    EXPECT_EQ(a.find(name)->type, b.find(name)->type) << name;
    EXPECT_TRUE(bytes_of(a, name) == bytes_of(b, name)) << name;
  }
}

std::string own_model(const std::string& name) {
  return std::string(TESSERA_SOURCE_DIR) + "/tests/data/hf/" + name;
}

TEST(ExportHf, KeepsEveryByteOfEveryFamily) {
  std::vector<std::string> folders;
  for (const char* name : testing::kHfModels) folders.push_back(own_model(name));
  const std::string shared = std::string(TESSERA_SHARED_DATA) + "/hf-tiny/";
  for (const char* name : {"llama-gqa", "qwen3", "gpt2", "mistral-window", "mixtral"}) {
    if (fs::exists(shared + name)) folders.push_back(shared + name);
  }
  for (const std::string& folder : folders) {
    const TestFolder scratch;
    const std::string out = scratch.path("out");
    const ExportReport report = export_hf({.source = folder, .out = out, .shard_bytes = 20'000});
    EXPECT_EQ(report.largest_error, 0) << folder;
    expect_same_tensors(folder, out);
    EXPECT_TRUE(fs::exists(out + "/model-00001-of-00002.safetensors") ||
                fs::exists(out + "/model.safetensors.index.json"))
        << folder;
    EXPECT_TRUE(fs::exists(out + "/generation_config.json"));
    EXPECT_FALSE(fs::exists(out + ".partial"));
    const auto ours = nlohmann::json::parse(read_file(out + "/config.json"));
    const auto theirs = nlohmann::json::parse(read_file(folder + "/config.json"));
    for (const char* key : {"architectures", "model_type", "vocab_size", "eos_token_id"}) {
      EXPECT_EQ(ours.at(key), theirs.at(key)) << folder << ", " << key;
    }
    // What theirs says of the model, ours says too; the type and the rotation as any version reads.
    for (const auto& [key, value] : theirs.items()) {
      if (value.is_null() || key == "layer_types" || key == "max_window_layers") continue;
      EXPECT_EQ(ours.value(key, nlohmann::json()), value) << folder << ", " << key;
    }
    EXPECT_EQ(ours.at("dtype"), "float32");
    EXPECT_EQ(ours.at("torch_dtype"), "float32");
    if (!ours.contains("rope_parameters")) continue;
    nlohmann::json older = ours.at("rope_scaling");
    if (older.is_null()) older = {{"rope_type", "default"}};
    older["rope_theta"] = ours.at("rope_theta");
    EXPECT_EQ(older, ours.at("rope_parameters"));
  }
}

// Some files of models whose head is their embedding have it twice.
TEST(ExportHf, ATiedHeadMayBeInTheFileAsACopyOnly) {
  for (const char* name : {"llama31-rope", "gpt2"}) {
    const TestFolder scratch;
    const std::string folder = scratch.path("tied");
    fs::copy(own_model(name), folder);
    const HfWeights weights = HfWeights::open(own_model(name));
    std::vector<std::vector<std::byte>> bytes;
    std::vector<TensorToWrite> tensors;
    bytes.reserve(weights.names().size() + 2);  // they are borrowed
    for (const std::string& one : weights.names()) {
      const TensorInfo* info = weights.find(one);
      bytes.push_back(bytes_of(weights, one));
      tensors.push_back({one, info->type, info->shape, bytes.back()});
      if (!one.ends_with("embed_tokens.weight") && !one.ends_with("wte.weight")) continue;
      bytes.push_back(bytes.back());
      tensors.push_back({"lm_head.weight", info->type, info->shape, bytes.back()});
    }
    write_safetensors(folder + "/model.safetensors", tensors, {});
    const ExportReport report = export_hf({.source = folder, .out = scratch.path("out")});
    EXPECT_EQ(report.largest_error, 0) << name;
    expect_same_tensors(folder, scratch.path("out"));
    for (auto& one : tensors) {
      if (one.name != "lm_head.weight") continue;
      bytes.push_back({one.bytes.begin(), one.bytes.end()});
      bytes.back()[5] ^= std::byte{1};
      one.bytes = bytes.back();
    }
    write_safetensors(folder + "/model.safetensors", tensors, {});
    try {
      export_hf({.source = folder, .out = scratch.path("again")});
      FAIL() << name;
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find("tie_word_embeddings"), std::string::npos) << message;
      EXPECT_NE(message.find("lm_head.weight"), std::string::npos) << message;
    }
  }
}

// Into the buckets of ranks that split the model, and out again.
TEST(ExportHf, WeightsPassThroughEveryMeshUnchanged) {
  for (const char* name : {"llama-gqa", "qwen3", "gpt2", "mistral-window", "mixtral"}) {
    for (const char* mesh : {"dp=1", "tp=2", "fsdp=2,zero=3", "pp=2"}) {
      RunSpec spec = testing::hf_model_spec(name, DType::kF32);
      spec.parallel = parse_mesh(mesh, {});
      spec.train.global_batch = 0;
      resolve(spec);
      const TestFolder folder;
      World world(build_step(spec, StepKind::kTraining));
      LocalWorld control({.size = world.size()});
      const TensorSource weights = hf_weights(spec.model.hf, world.step().layout);
      world.run([&](int rank, Executor& executor) {
        load_weights(executor, world.step(), weights);
        save_weights(folder.path("model.safetensors"), world.step(), executor,
                     *control.endpoint(rank).join_all("control"));
      });
      expect_same_tensors(spec.model.hf, folder.path());
    }
  }
}

TEST(ExportHf, ARunBecomesAFolderWithItsTokenizer) {
  const TestFolder folder;
  fs::copy(own_model("llama-gqa"), folder.path("base"));
  folder.write("base/tokenizer.json", "{\"kept\": 1}");
  folder.write("base/chat_template.jinja", "{{ messages }}");
  folder.write("text", std::string(400, '\x05'));
  folder.write("run.toml", fmt::format("[model]\nhf = \"{}\"\nvocab = 256\ninit = \"random\"\n"
                                       "[train]\nseq_len = 16\nsteps = 2\n[data]\npath = \"{}\"\n",
                                       folder.path("base"), folder.path("text")));
  CommandResult result = testing::tessera(folder, "train run.toml --set logging.run_dir=run");
  ASSERT_EQ(result.code, 0) << result.err;
  result = testing::tessera(folder, "export-hf run out --shard-size 30kB --json");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.json().at("largest_error"), 0.0);
  EXPECT_GT(result.json().at("checked_logits").get<int64_t>(), 1000);
  expect_same_tensors(folder.path("run"), folder.path("out"));
  EXPECT_TRUE(fs::exists(folder.path("out/model.safetensors.index.json")));
  result = testing::tessera(folder, "export-hf run out");
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("is there already"), std::string::npos) << result.err;
  EXPECT_EQ(testing::tessera(folder, "verify --hf out --set train.seq_len=16").code, 0);
}

// A model of its own family's first ids would stop at the wrong token.
TEST(ExportHf, ARunFromNothingSaysWhichTokenEndsAText) {
  const TestFolder folder;
  ASSERT_EQ(testing::tessera(folder, "data synth --bytes 20000 -o text.txt").code, 0);
  ASSERT_EQ(testing::tessera(folder, "data tokenizer train text.txt --vocab 300 --out tok").code,
            0);
  ASSERT_EQ(testing::tessera(folder, "data prepare text.txt --tokenizer tok --out set").code, 0);
  folder.write("run.toml",
               "[model]\nlayers=1\nhidden=16\nffn=32\nheads=2\nvocab=300\n[train]\nseq_len=16\n"
               "steps=1\n[data]\ntrain=\"set\"\n[logging]\nrun_dir=\"run\"\n");
  CommandResult result = testing::tessera(folder, "train run.toml --threads");
  ASSERT_EQ(result.code, 0) << result.err;
  result = testing::tessera(folder, "export-hf run out");
  ASSERT_EQ(result.code, 0) << result.err;
  for (const char* file : {"out/config.json", "out/generation_config.json"}) {
    const auto json = nlohmann::json::parse(read_file(folder.path(file)));
    EXPECT_EQ(json.at("eos_token_id"), 0) << file;
    EXPECT_TRUE(json.at("bos_token_id").is_null()) << file;
  }
}

// One weight that is another one: the check must find it, and nothing may be left behind.
TEST(ExportHf, WrongLogitsLeaveNothing) {
  const TestFolder folder;
  const std::string out = folder.path("out");
  const auto spoil = [](const std::string& written) {
    const std::string file = written + "/model.safetensors";
    std::string bytes = read_file(file);
    const float wrong = 3;
    std::memcpy(&bytes[bytes.size() - sizeof wrong], &wrong, sizeof wrong);
    std::ofstream(file, std::ios::binary) << bytes;
  };
  try {
    export_hf({.source = own_model("llama-gqa"), .out = out, .on_written = spoil});
    FAIL() << "it was exported";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kFailed);
    EXPECT_NE(std::string(error.what()).find("computes other logits"), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("nothing was written"), std::string::npos);
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
  EXPECT_EQ(export_hf({.source = own_model("llama-gqa"), .out = out}).largest_error, 0);
}

TEST(ExportHf, RefusesWhatIsNoModel) {
  const TestFolder folder;
  EXPECT_THROW(export_hf({.source = folder.path(), .out = folder.path("out")}), ConfigError);
  EXPECT_THROW(export_hf({.source = folder.path("none"), .out = folder.path("out")}), ConfigError);
  EXPECT_FALSE(fs::exists(folder.path("out.partial")));
}

}  // namespace
}  // namespace tessera
