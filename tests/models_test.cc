// The families end to end: files in and out in their own layouts, text from trained weights, and
// faults in what only they have.
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/testing/test_folder.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/testing/safetensors_bytes.h"
#include "spec/run_file/run_file.h"
#include "support/command.h"
#include "support/tiny.h"
#include "train/verify/verify.h"
#include "train/weights/weights.h"

namespace tessera {
namespace {

using testing::CommandResult;
using testing::parse_case;
using testing::read_file;
using testing::safetensors_bytes;
using testing::TestFolder;

// A value that tells tensor and element.
void numbered(const LogicalTensor& tensor, int64_t first, std::span<double> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<double>(tensor.order) * 1e6 + static_cast<double>(first) +
             static_cast<double>(i) + 1;
  }
}

void save_numbered(const std::string& line, const std::string& path) {
  World world(build_step(parse_case(line).spec, StepKind::kTraining));
  LocalWorld control_world({.size = world.size()});
  world.run([&](int rank, Executor& executor) {
    load_weights(executor, world.step(), numbered);
    save_weights(path, world.step(), executor, *control_world.endpoint(rank).join_all("control"));
  });
}

std::vector<double> read_whole(const SafetensorsFile& file, const std::string& name) {
  std::vector<double> values(static_cast<size_t>(numel(file.at(name).shape)));
  file.read(name, std::span<double>(values));
  return values;
}

constexpr const char* kMeshes[] = {"dp=1", "tp=2", "dp=2 tp=2 zero=3", "tp=4 ffn=21"};

// Stored element (in, out) of c_attn is element (out, in) of q, k or v.
TEST(Gpt2FilesTest, AreTransposedAndFusedOnEveryMesh) {
  for (const std::string mesh : kMeshes) {
    SCOPED_TRACE(mesh);
    const TestFolder folder;
    const std::string line = "family=gpt2 layers=1 " + mesh;
    save_numbered(line, folder.path("model.safetensors"));
    const SafetensorsFile file = SafetensorsFile::open(folder.path("model.safetensors"));
    EXPECT_EQ(file.tensors().size(), size_t{16});
    ASSERT_EQ(file.at("transformer.h.0.attn.c_attn.weight").shape, (Shape{16, 48}));
    EXPECT_EQ(file.at("transformer.h.0.attn.c_attn.bias").shape, Shape{48});
    EXPECT_EQ(file.at("transformer.wpe.weight").shape, (Shape{8, 16}));
    const RunSpec spec = parse_case(line).spec;
    const ParameterLayout layout = layout_parameters(spec, mesh_of(spec.parallel));
    const std::vector<double> fused = read_whole(file, "transformer.h.0.attn.c_attn.weight");
    const std::vector<double> bias = read_whole(file, "transformer.h.0.attn.c_attn.bias");
    int checked = 0;
    for (const Bucket& bucket : layout.buckets) {
      for (const Weight& weight : bucket.weights) {
        for (const LogicalTensor& tensor : weight.parts) {
          const int64_t part = tensor.name.ends_with("[q]")   ? 0
                               : tensor.name.ends_with("[k]") ? 1
                               : tensor.name.ends_with("[v]") ? 2
                                                              : -1;
          if (part < 0) continue;
          std::vector<double> want(static_cast<size_t>(numel(tensor.shape)));
          numbered(tensor, 0, want);
          for (size_t i = 0; i < want.size(); ++i) {
            const size_t out = tensor.shape.size() == 2 ? i / 16 : i, in = i % 16;
            const auto column = static_cast<size_t>(part) * 16 + out;
            EXPECT_EQ(want[i], tensor.shape.size() == 2 ? fused[in * 48 + column] : bias[column]);
          }
          ++checked;
        }
      }
    }
    EXPECT_EQ(checked, 6);
  }
}

// Loads a folder on another mesh than it was saved from and expects the numbers.
void expect_loads(const std::string& folder, const std::string& line) {
  World world(build_step(parse_case(line).spec, StepKind::kTraining));
  const TensorSource source = hf_weights(folder, world.step().layout);
  world.run([&](int, Executor& executor) { load_weights(executor, world.step(), source); });
  for (const LogicalValues& state : gather_state(world, StateKind::kWeights)) {
    std::vector<double> want(state.values.size());
    numbered(state.tensor, 0, want);
    EXPECT_EQ(state.values, want) << state.tensor.name;
  }
}

TEST(FamilyFilesTest, ComeBackOnAnyOtherMesh) {
  for (const std::string family :
       {"gpt2", "mistral", "qwen2 kv_heads=2", "qwen3 kv_heads=2", "gpt2 tied=false"}) {
    SCOPED_TRACE(family);
    const TestFolder folder;
    const std::string line = "family=" + family + " vocab=37 ";
    save_numbered(line + "dp=2 tp=2 zero=1", folder.path("model.safetensors"));
    for (const char* mesh : {"dp=1", "tp=4", "fsdp=3 zero=3 global_batch=3"}) {
      expect_loads(folder.path(), line + mesh);
    }
  }
}

// Rewrites every name of a safetensors file's header; the data stays where it is.
std::string with_names(const std::string& bytes, const std::string& from, const std::string& to,
                       const std::string& extra) {
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  std::string header = bytes.substr(sizeof length, length);
  for (size_t at = 0; (at = header.find(from, at)) != std::string::npos; at += to.size()) {
    header.replace(at, from.size(), to);
  }
  const size_t end = header.rfind('}');
  header.insert(end, extra);
  return safetensors_bytes(header, bytes.substr(sizeof length + length));
}

TEST(Gpt2FilesTest, MayLackThePrefixAndHoldMasks) {
  const TestFolder folder;
  const std::string line = "family=gpt2 layers=1";
  save_numbered(line, folder.path("model.safetensors"));
  const std::string bytes = read_file(folder.path("model.safetensors"));
  folder.write("model.safetensors", with_names(bytes, "\"transformer.", "\"", ""));
  expect_loads(folder.path(), line);
  const auto size = std::to_string(bytes.size() - 8 - [&] {
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    return length;
  }());
  const auto empty = [&](const std::string& name) {
    return fmt::format(R"(,"{}":{{"dtype":"F32","shape":[0],"data_offsets":[{},{}]}})", name, size,
                       size);
  };
  folder.write("model.safetensors",
               with_names(bytes, "\"transformer.", "\"",
                          empty("h.0.attn.bias") + empty("h.0.attn.masked_bias")));
  expect_loads(folder.path(), line);
  folder.write("model.safetensors",
               with_names(bytes, "\"transformer.", "\"", empty("h.0.attn.rotary")));
  EXPECT_THROW(expect_loads(folder.path(), line), Error);
}

std::string run_file(const std::string& family) {
  const std::string text = testing::tiny_run_file();
  const bool gpt2 = family == "gpt2";
  std::string model = "[model]\nfamily = \"" + family + "\"\n" + text.substr(text.find('\n') + 1);
  if (gpt2) model.replace(model.find("kv_heads = 2"), 12, "kv_heads = 4");
  return model;
}

TEST(FamilyCommandsTest, TrainSaveAndGenerate) {
  for (const std::string family : {"gpt2", "mistral", "qwen2", "qwen3"}) {
    SCOPED_TRACE(family);
    const TestFolder folder;
    folder.write("run.toml", run_file(family));
    const CommandResult trained =
        testing::tessera(folder, "train run.toml --set logging.run_dir=out");
    ASSERT_EQ(trained.code, 0) << trained.err;
    // The run's own folder is a Hugging Face model.
    const std::string run = run_file(family);
    folder.write("again.toml", "[model]\nhf = \"out\"\n" + run.substr(run.find("[parallel]")));
    const CommandResult again =
        testing::tessera(folder, "train again.toml --set logging.run_dir=more");
    EXPECT_EQ(again.code, 0) << again.err;
    const CommandResult text =
        testing::tessera(folder, "generate --run out --tokens 4 --prompt Once --temperature 0");
    EXPECT_EQ(text.code, 0) << text.err;
    EXPECT_EQ(text.out.substr(0, 4), "Once") << text.out;
  }
}

struct Fault {
  const char* name;
  const char* family;
  const char* mesh;
  const char* fault;
  const char* tensor;
};

const Fault kFaults[] = {
    // Every tp rank normalises other heads: without the sum it keeps its own heads' gradient.
    {"HeadNormGradient", "qwen3", "tp=2", "drop-cast:tensor=d(layers.1.shared.full)",
     "model.layers.1.self_attn.q_norm.weight"},
    {"LayerNormGradient", "gpt2", "tp=2,sequence_parallel=true",
     "drop-cast:tensor=d(layers.1.norms.full)", "transformer.h.1.ln_1.weight"},
    {"BiasGradientTwice", "gpt2", "tp=2", "scale-grad:tensor=layers.1.up.bias,axis=tp",
     "transformer.h.1.mlp.c_fc.bias"},
    {"OutputBiasTwice", "gpt2", "tp=2", "scale-grad:tensor=layers.0.o.bias,axis=tp",
     "transformer.h.0.attn.c_proj.bias"},
    {"PositionsTwice", "gpt2", "tp=2,sequence_parallel=true", "scale-grad:tensor=positions,axis=tp",
     "transformer.wpe.weight"},
    {"RolledKeys", "gpt2", "tp=2", "roll-shard:tensor=transformer.h.0.attn.c_attn.weight[k],rank=1",
     "transformer.wte.weight"},
    {"ReplicatedKeyBias", "qwen2", "tp=4", "drop-cast:tensor=d(layers.1.shared.full)",
     "model.layers.1.self_attn.k_proj.bias"},
};

class FamilyFaultTest : public ::testing::TestWithParam<Fault> {};

TEST_P(FamilyFaultTest, IsFoundByName) {
  const Fault& fault = GetParam();
  VerifyOptions options;
  const auto spec_on = [&](const std::string& mesh) {
    RunSpec spec = parse_run_file(run_file(fault.family), "run.toml", {},
                                  [](const std::string&) { return std::string(); });
    spec.parallel = parse_mesh(mesh, {});
    spec.train.dtype = DType::kF64;
    spec.optimizer.eps = 1e-4;  // Adam divides by |g|: near zero it would magnify rounding errors
    resolve(spec);
    return spec;
  };
  options.left = spec_on("dp=1");
  options.right = spec_on(fault.mesh);
  options.steps = 2;
  const VerifyReport healthy = verify_meshes(options);
  EXPECT_TRUE(healthy.equal) << healthy.text;
  options.inject = parse_injection(fault.fault);
  const VerifyReport report = verify_meshes(options);
  ASSERT_FALSE(report.equal) << report.text;
  EXPECT_EQ(report.json.at("first_difference").at("tensor"), fault.tensor) << report.text;
}

INSTANTIATE_TEST_SUITE_P(Faults, FamilyFaultTest, ::testing::ValuesIn(kFaults),
                         [](const auto& fault) { return std::string(fault.param.name); });

}  // namespace
}  // namespace tessera
