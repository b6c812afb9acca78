#include "published/inference.h"

#include <gtest/gtest.h>

#include <numeric>

#include "cost/engine/engine_catalogue.h"
#include "cost/hardware/catalogue.h"
#include "cost/step/cost_model.h"
#include "spec/catalogue/model_catalogue.h"

namespace tessera {
namespace {

Workload workload(const std::string& model) {
  Workload w;
  w.model = shape_of(find_model(model).model, 4096);
  w.cluster = find_cluster("h100-512");
  w.engine = find_engine("megatron").numbers;
  w.seq_len = 4096;
  w.global_batch = 4096;
  return w;
}

double states_of_last(const Workload& w, const Strategy& s) {
  const StageMemory last = CostModel(w).estimate(s).stages.back();
  double bytes = 0;
  for (const MemoryPart part :
       {MemoryPart::kParameters, MemoryPart::kGradients, MemoryPart::kOptimizer}) {
    bytes += static_cast<double>(last.bytes[static_cast<size_t>(part)]);
  }
  return bytes;
}

TEST(InferenceTest, ReplicasFollowFromTheBytesOfTheStates) {
  const Workload w = workload("mixtral-8x7b");
  Strategy s;
  s.tp = 2;
  s.pp = 4;
  s.ep = 8;
  s.zero = 1;
  for (const int64_t dp : {4, 8, 16, 32}) {
    s.dp = dp;
    const double bytes = states_of_last(w, s);
    s.dp = 4;
    EXPECT_EQ(replicas_of_states(w, s, bytes), dp);
    // Engines keep some buffers besides.
    EXPECT_EQ(replicas_of_states(w, s, 1.03 * bytes), dp);
  }
}

TEST(InferenceTest, LaterTokensAreSeenInTheArithmetic) {
  Workload w = workload("deepseek-v3");
  const auto per_token = [&](int64_t mtp_layers) {
    Workload other = w;
    other.model.mtp_layers = mtp_layers;
    return model_flops(other) / (4096.0 * 4096);
  };
  EXPECT_FALSE(has_later_tokens(w, per_token(0)));
  EXPECT_TRUE(has_later_tokens(w, per_token(1)));
  EXPECT_TRUE(has_later_tokens(w, 1.005 * per_token(1)));
  EXPECT_FALSE(has_later_tokens(w, 1.1 * per_token(1)));  // some other way of counting
}

TEST(InferenceTest, LayersThatDoNotDivideLeaveLessForTheHead) {
  const Workload w = workload("deepseek-v3");
  Strategy s;
  s.pp = 16;
  s.dp = 32;
  s.ep = 32;
  const std::vector<int64_t> layers = likely_stage_layers(w, s);
  ASSERT_EQ(layers.size(), 16U);
  EXPECT_EQ(std::accumulate(layers.begin(), layers.end(), int64_t{0}), 61);
  EXPECT_EQ(layers.front(), 4);
  EXPECT_EQ(layers.back(), 1);
  Strategy even = s;
  s.stage_layers = layers;
  EXPECT_LT(CostModel(w).step_s(s), CostModel(w).step_s(even));

  // 94 layers and both ends are 96.
  even.pp = 8;
  even.dp = 64;
  EXPECT_TRUE(likely_stage_layers(workload("qwen3-235b-a22b"), even).empty());
  even.pp = 1;
  EXPECT_TRUE(likely_stage_layers(w, even).empty());
}

}  // namespace
}  // namespace tessera
