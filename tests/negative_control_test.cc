// Verification finds the faults it exists for: the same comparison passes without a fault and
// fails, with the right first difference, with one.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"
#include "support/command.h"
#include "train/verify/verify.h"

namespace tessera {
namespace {

using testing::CommandResult;
using testing::TestFolder;

RunSpec spec_on(const std::string& mesh) {
  RunSpec spec = parse_run_file(testing::tiny_run_file(), "run.toml", {},
                                [](const std::string&) { return std::string(); });
  spec.parallel = parse_mesh(mesh, {});
  spec.train.dtype = DType::kF64;
  resolve(spec);
  return spec;
}

VerifyReport against_one_rank(const std::string& mesh, const std::string& fault) {
  VerifyOptions options;
  options.left = spec_on("dp=1");
  options.right = spec_on(mesh);
  options.steps = 2;
  if (!fault.empty()) options.inject = parse_injection(fault);
  return verify_meshes(options);
}

struct Fault {
  const char* name;
  const char* mesh;
  const char* fault;
  int64_t step;
  const char* kind;
  // The first one in the order of the model that a reader expects, or null where the fault reaches
  // the very first tensor of the model.
  const char* tensor;
};

const char* const kEmbedding = "model.embed_tokens.weight";

const Fault kFaults[] = {
    // A fault in the forward pass changes every gradient of step 1, the embedding's first.
    {"TpReduceScatter", "dp=2,tp=2,zero=1,sequence_parallel=true",
     "drop-cast:tensor=layers.0.o.sum", 1, "gradient", kEmbedding},
    {"TpAllGather", "dp=2,tp=2,zero=1,sequence_parallel=true",
     "drop-cast:tensor=layers.0.attn_norm.full", 1, "gradient", kEmbedding},
    {"TpAllReduce", "tp=2", "drop-cast:tensor=layers.0.o.sum", 1, "gradient", kEmbedding},
    // What is gathered again for the backward pass reaches one layer's weights only.
    {"TpAllGatherAgain", "tp=2,sequence_parallel=true",
     "drop-cast:tensor=layers.1.attn_norm.full.again", 1, "gradient",
     "model.layers.1.self_attn.q_proj.weight"},
    {"DpGradientAllReduce", "dp=2,zero=0", "drop-cast:tensor=d(layers.0.matrices)", 1, "gradient",
     "model.layers.0.self_attn.q_proj.weight"},
    {"DpGradientReduceScatter", "dp=2,zero=1", "drop-cast:tensor=d(layers.1.matrices)", 1,
     "gradient", "model.layers.1.self_attn.q_proj.weight"},
    {"TpNormGradient", "tp=2,sequence_parallel=true", "drop-cast:tensor=d(layers.1.norms.full)", 1,
     "gradient", "model.layers.1.input_layernorm.weight"},
    // Each rank keeps the old half of the weights: what the owners hold is right until step 2.
    {"ZeroParameterAllGather", "dp=2,zero=1", "drop-cast:tensor=layers.0.matrices.full", 2,
     "gradient", kEmbedding},
    {"RolledTpShard", "dp=2,tp=2", "roll-shard:tensor=model.layers.1.mlp.up_proj.weight,rank=1", 1,
     "gradient", kEmbedding},
    {"RolledReplica", "dp=2", "roll-shard:tensor=model.layers.0.self_attn.q_proj.weight,rank=1", 1,
     "gradient", kEmbedding},
    {"GradientTimesDp", "dp=2,tp=2", "scale-grad:tensor=layers.1.q,axis=dp", 1, "gradient",
     "model.layers.1.self_attn.q_proj.weight"},
    {"GradientTimesTp", "dp=2,tp=2,sequence_parallel=true",
     "scale-grad:tensor=layers.0.mlp_norm,axis=tp", 1, "gradient",
     "model.layers.0.post_attention_layernorm.weight"},
};

class NegativeControlTest : public ::testing::TestWithParam<Fault> {};

TEST_P(NegativeControlTest, PassesWithoutTheFaultAndFailsWithIt) {
  const Fault& fault = GetParam();
  const VerifyReport healthy = against_one_rank(fault.mesh, "");
  EXPECT_TRUE(healthy.equal) << healthy.text;
  EXPECT_FALSE(healthy.json.contains("first_difference"));

  const VerifyReport report = against_one_rank(fault.mesh, fault.fault);
  ASSERT_FALSE(report.equal) << report.text;
  EXPECT_FALSE(report.json.at("equal").get<bool>());
  const nlohmann::ordered_json& first = report.json.at("first_difference");
  EXPECT_EQ(first.at("step"), fault.step);
  EXPECT_EQ(first.at("kind"), fault.kind);
  EXPECT_EQ(first.at("tensor"), fault.tensor) << report.text;
  EXPECT_GT(first.at("difference").get<double>(), 1e-6) << "hardly above rounding";
  const std::string sentence = fmt::format("DIFFERENT: first the {} of '{}' at step {}", fault.kind,
                                           fault.tensor, fault.step);
  EXPECT_NE(report.text.find(sentence), std::string::npos) << report.text;
}

INSTANTIATE_TEST_SUITE_P(Faults, NegativeControlTest, ::testing::ValuesIn(kFaults),
                         [](const auto& fault) { return std::string(fault.param.name); });

class NegativeControlCommandTest : public ::testing::Test {
 protected:
  NegativeControlCommandTest() { folder_.write("run.toml", testing::tiny_run_file()); }
  CommandResult verify(const std::string& rest) {
    return testing::tessera(folder_, "verify run.toml --steps 2 --mesh " + rest);
  }
  TestFolder folder_;
};

TEST_F(NegativeControlCommandTest, ExitsWithOneAndNamesTheFirstDifference) {
  const std::string mesh = "dp=2,tp=2,zero=1,sequence_parallel=true";
  const CommandResult healthy = verify(mesh);
  EXPECT_EQ(healthy.code, 0) << healthy.out << healthy.err;
  EXPECT_NE(healthy.out.find("equal: nothing differs by more than 1e-12"), std::string::npos);

  const CommandResult dropped = verify(mesh + " --inject drop-cast:tensor=layers.0.o.sum");
  EXPECT_EQ(dropped.code, 1) << dropped.err;
  EXPECT_NE(
      dropped.out.find("DIFFERENT: first the gradient of 'model.embed_tokens.weight' at step 1"),
      std::string::npos)
      << dropped.out;

  const CommandResult scaled =
      verify(mesh + " --json --inject scale-grad:tensor=layers.1.down,axis=dp");
  EXPECT_EQ(scaled.code, 1) << scaled.err;
  EXPECT_EQ(scaled.json().at("equal"), false);
  EXPECT_EQ(scaled.json().at("first_difference").at("tensor"),
            "model.layers.1.mlp.down_proj.weight");
  EXPECT_EQ(scaled.json().at("first_difference").at("kind"), "gradient");
  EXPECT_EQ(scaled.json().at("first_difference").at("step"), 1);

  EXPECT_EQ(verify(mesh + " --inject roll-shard:tensor=model.norm.weight,rank=1").code, 0)
      << "all initial norm weights are 1, so rolling them changes nothing";
  EXPECT_EQ(verify(mesh + " --inject roll-shard:tensor=lm_head.weight,rank=1").code, 1);
}

TEST_F(NegativeControlCommandTest, ABadFaultIsAUsageError) {
  for (const std::string fault :
       {"drop-cast:tensor=no.such", "drop:tensor=x", "nan:step=two,tensor=x",
        "drop-cast:", "scale-grad:tensor=x,axis=qp"}) {
    const CommandResult result = verify("dp=2 --inject " + fault);
    EXPECT_EQ(result.code, 2) << fault;
    EXPECT_NE(result.err.find("--inject"), std::string::npos) << result.err;
  }
}

}  // namespace
}  // namespace tessera
