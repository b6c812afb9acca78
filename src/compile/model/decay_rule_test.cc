#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "base/error.h"
#include "compile/model/parameters.h"
#include "compile/testing/test_spec.h"

namespace tessera {
namespace {

// Names of the weights that decay, as the graph has them.
std::set<std::string> decaying(const std::function<void(OptimizerSpec&)>& change,
                               const std::string& mesh = "dp=1") {
  RunSpec spec = testing::small_spec(mesh);
  change(spec.optimizer);
  std::set<std::string> names, buckets;
  for (const Bucket& bucket : layout_parameters(spec, mesh_of(spec.parallel)).buckets) {
    EXPECT_TRUE(buckets.insert(bucket.name).second) << bucket.name;
    for (const Weight& weight : bucket.weights) {
      if (bucket.decay) names.insert(weight.name);
    }
  }
  return names;
}

std::string refusal(const std::string& also, const std::string& without) {
  try {
    decaying([&](OptimizerSpec& o) {
      o.weight_decay_also = also;
      o.weight_decay_not = without;
    });
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(DecayRule, IsOfMatricesUnlessTheFileSaysMore) {
  const std::set<std::string> usual = decaying([](OptimizerSpec&) {});
  EXPECT_TRUE(usual.contains("embed"));
  EXPECT_TRUE(usual.contains("layers.1.gate_up"));
  EXPECT_FALSE(usual.contains("layers.0.attn_norm"));
  const auto all = decaying([](OptimizerSpec& o) { o.weight_decay_on = DecayOn::kAll; });
  EXPECT_TRUE(all.contains("layers.0.attn_norm"));
  EXPECT_TRUE(decaying([](OptimizerSpec& o) { o.weight_decay_on = DecayOn::kNone; }).empty());
}

TEST(DecayRule, NamesAreExceptionsInEveryBlockAndOnEveryMesh) {
  const auto but = [](OptimizerSpec& o) {
    o.weight_decay_not = "model.embed_tokens.weight, *.down_proj.*";
    o.weight_decay_also = "*input_layernorm*";
  };
  const std::set<std::string> one = decaying(but);
  EXPECT_FALSE(one.contains("embed"));
  EXPECT_FALSE(one.contains("layers.0.down"));
  EXPECT_FALSE(one.contains("layers.1.down"));
  EXPECT_TRUE(one.contains("layers.1.o"));
  EXPECT_TRUE(one.contains("layers.1.attn_norm"));
  EXPECT_FALSE(one.contains("layers.1.mlp_norm"));
  for (const char* mesh : {"dp=2,zero=1", "tp=2", "fsdp=2,tp=2,sequence_parallel=true"}) {
    EXPECT_EQ(decaying(but, mesh), one) << mesh;
  }
}

TEST(DecayRule, RefusesPatternsOfNothingAndOfHalfAWeight) {
  EXPECT_NE(refusal("", "layers.0.*").find("names no tensor of the model"), std::string::npos);
  EXPECT_NE(refusal("", "*.k_proj.weight").find("are kept as one matrix"), std::string::npos);
  EXPECT_EQ(refusal("", "*.k_proj.weight,*.v_proj.weight"), "");
  EXPECT_NE(refusal("*norm*", "model.norm.weight").find("both name 'model.norm.weight'"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera
