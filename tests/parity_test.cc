// Logits, loss, gradients and a five-step trajectory against values that PyTorch computed for the
// same Hugging Face folders.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "checkpoint/safetensors.h"
#include "spec/run_file/run_file.h"
#include "support/command.h"
#include "train/verify/verify.h"

namespace tessera {
namespace {

using testing::CommandResult;
using testing::read_file;
using testing::TestFolder;

constexpr const char* kModels[] = {"llama-gqa",      "llama31-rope", "gpt2",
                                   "mistral-window", "qwen2",        "qwen3"};
// "tp=4" has more ranks than key and value heads, which are then replicated.
constexpr const char* kMeshes[] = {
    "dp=1", "dp=2,tp=2,sequence_parallel=true", "dp=2,tp=2",   "fsdp=2,zero=3",
    "tp=4", "tp=4,sequence_parallel=true",      "dp=3,zero=1", "cp=2,tp=2,sequence_parallel=true"};
constexpr const char* kErrors[] = {"logits", "loss",       "gradients",
                                   "losses", "grad_norms", "weights"};

GoldenOptions golden(const std::string& folder, const std::string& mesh, double tolerance) {
  GoldenOptions options;
  options.hf = folder;
  options.golden = folder + "/golden.safetensors";
  options.parallel = parse_mesh(mesh, {});
  options.tolerance = tolerance;
  return options;
}

std::string own_model(const std::string& name) {
  return std::string(TESSERA_SOURCE_DIR) + "/tests/data/hf/" + name;
}

void expect_parity(const std::string& folder, double tolerance,
                   std::span<const char* const> meshes = kMeshes) {
  for (const char* mesh : meshes) {
    SCOPED_TRACE(folder + " on " + mesh);
    const VerifyReport report = verify_golden(golden(folder, mesh, tolerance));
    EXPECT_TRUE(report.equal) << report.text;
    EXPECT_TRUE(report.json.at("equal").get<bool>());
    for (const char* kind : kErrors) {
      EXPECT_LE(report.json.at("errors").at(kind).at("largest").get<double>(), tolerance) << kind;
    }
  }
}

// tools/make_golden.py keeps every intermediate value in float64.
TEST(ParityTest, MatchesFloat64ReferenceOnEveryMesh) {
  for (const char* model : kModels) expect_parity(own_model(model), 1e-9);
}

// These reference values were computed with norms and softmax in float32 inside a float64 model,
// as Transformers does, so they are no closer to the true ones than float32. GPT-2 has no RMSNorm
// and no rotary tables, and its softmax keeps the type.
TEST(ParityTest, MatchesTransformersOnEveryMesh) {
  const std::string folder = std::string(TESSERA_SHARED_DATA) + "/hf-tiny";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not there";
  for (const char* model : {"llama-gqa", "llama31-rope", "qwen3"}) {
    expect_parity(folder + "/" + model, 1e-6);
  }
  constexpr const char* kForSixHeads[] = {"dp=1", "dp=2,tp=2,sequence_parallel=true", "tp=3",
                                          "fsdp=2,zero=3"};
  expect_parity(folder + "/qwen2", 1e-6, kForSixHeads);
  // Adam divides by |g|: where the gradient is nearly zero, its sign is float32 noise.
  expect_parity(folder + "/mistral-window", 1e-5);
  expect_parity(folder + "/gpt2", 1e-9);
}

TEST(ParityTest, AToleranceBelowRoundingFails) {
  const VerifyReport report = verify_golden(golden(own_model("llama-gqa"), "dp=1", 1e-17));
  EXPECT_FALSE(report.equal);
  EXPECT_NE(report.text.find("TOO LARGE"), std::string::npos) << report.text;
}

// A copy of a model whose first value of a tensor is one in ten thousand larger.
void copy_with_changed_weight(const std::string& from, const TestFolder& to,
                              const std::string& tensor) {
  std::filesystem::copy(from, to.path(), std::filesystem::copy_options::recursive);
  std::string bytes = read_file(to.path("model.safetensors"));
  const SafetensorsFile file = SafetensorsFile::open(from + "/model.safetensors");
  ASSERT_GT(bytes.size(), size_t{1000});
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  const size_t at = sizeof header + header + static_cast<size_t>(file.at(tensor).begin);
  float value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  value *= 1.0001F;
  std::memcpy(bytes.data() + at, &value, sizeof value);
  to.write("model.safetensors", bytes);
}

TEST(ParityTest, AWeightChangedByOneInTenThousandFails) {
  const std::string model = own_model("llama-gqa");
  for (const std::string tensor :
       {"model.layers.1.self_attn.q_proj.weight", "model.layers.0.input_layernorm.weight",
        "model.layers.0.mlp.down_proj.weight", "lm_head.weight"}) {
    const TestFolder folder;
    copy_with_changed_weight(model, folder, tensor);
    for (const char* mesh : {"dp=1", "dp=2,tp=2,sequence_parallel=true"}) {
      EXPECT_FALSE(verify_golden(golden(folder.path(), mesh, 1e-9)).equal)
          << tensor << ", " << mesh;
    }
  }
}

TEST(ParityTest, TheCommandReportsEveryKindOfError) {
  const TestFolder folder;
  const std::string model = own_model("llama-gqa");
  const std::string command =
      fmt::format("verify --hf {0} --golden {0}/golden.safetensors --json --mesh tp=2", model);
  const CommandResult equal = testing::tessera(folder, command);
  EXPECT_EQ(equal.code, 0) << equal.err;
  const nlohmann::json report = equal.json();
  EXPECT_EQ(report.at("schema_version"), 1);
  EXPECT_EQ(report.at("equal"), true);
  EXPECT_EQ(report.at("tolerance"), 1e-9);
  EXPECT_EQ(report.at("dtype"), "f64");
  for (const char* kind : kErrors) {
    EXPECT_TRUE(report.at("errors").at(kind).at("largest").is_number()) << kind;
    EXPECT_TRUE(report.at("errors").at(kind).at("tensor").is_string()) << kind;
  }
  const CommandResult zero = testing::tessera(folder, command + " --tolerance 0");
  EXPECT_EQ(zero.code, 1) << "PyTorch rounds otherwise";
  EXPECT_EQ(zero.json().at("tolerance"), 0.0);
  EXPECT_EQ(testing::tessera(folder, command + " --dtype f32 --tolerance 1e-4").code, 0);
}

TEST(ParityTest, AFolderAloneIsLoadedAndPassedForward) {
  const TestFolder folder;
  const std::string command =
      fmt::format("verify --hf {} --set train.seq_len=32 --json", own_model("llama-gqa"));
  const CommandResult one = testing::tessera(folder, command);
  EXPECT_EQ(one.code, 0) << one.err;
  const double loss = one.json().at("loss").get<double>();
  EXPECT_GT(loss, 0.5 * one.json().at("uniform_loss").get<double>());
  EXPECT_LT(loss, 2.0 * one.json().at("uniform_loss").get<double>());
  const CommandResult split = testing::tessera(folder, command + " --mesh tp=2");
  EXPECT_NEAR(split.json().at("loss").get<double>(), loss, 1e-5 * loss);
  EXPECT_NE(testing::tessera(folder, command + " --set train.seed=2").json().at("loss"), loss)
      << "another text";
}

TEST(ParityTest, WeightsThatAreNotFiniteAreFound) {
  const TestFolder folder;
  std::filesystem::copy(own_model("llama-gqa"), folder.path(),
                        std::filesystem::copy_options::recursive);
  std::string bytes = read_file(folder.path("model.safetensors"));
  std::fill(bytes.end() - 64, bytes.end(), '\xff');  // NaN in every type
  folder.write("model.safetensors", bytes);
  const CommandResult result =
      testing::tessera(folder, fmt::format("verify --hf {} --set train.seq_len=32", folder.path()));
  EXPECT_EQ(result.code, 4) << result.err;
  EXPECT_NE(result.err.find("not finite"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace tessera
