#include "cost/step/layer_cost.h"

#include <gtest/gtest.h>

#include "cost/engine/engine_catalogue.h"
#include "cost/hardware/catalogue.h"
#include "cost/step/cost_model.h"
#include "spec/catalogue/model_catalogue.h"

namespace tessera {
namespace {

Workload workload(const std::string& cluster, MathType products = MathType::kF16) {
  Workload w;
  w.model = shape_of(find_model("qwen3-30b-a3b").model, 4096);  // 8 of 128 experts
  w.cluster = find_cluster(cluster);
  w.engine = find_engine("megatron").numbers;
  w.seq_len = 4096;
  w.global_batch = 64;
  w.precision.products = products;
  return w;
}

Strategy experts_over(int64_t ep) {
  Strategy s;
  s.dp = 16;
  s.ep = ep;
  return s;
}

double seconds_of(const AxisCosts& costs) {
  return costs.seconds[static_cast<size_t>(CommAxis::kExpert)];
}
double bytes_of(const AxisCosts& costs) {
  return costs.bytes[static_cast<size_t>(CommAxis::kExpert)];
}

TEST(LayerCostTest, TheHostIssuesEveryExpertWhileTheDeviceWaits) {
  const auto wait = [](int64_t ep, MathType products) {
    return layer_cost(workload("h100-16", products), experts_over(ep), true).host_wait_s;
  };
  const double op_s = find_cluster("h100-16").device.host_op_s.value;
  ASSERT_GT(op_s, 0);
  const EngineNumbers engine = find_engine("megatron").numbers;
  // Eight experts more on a rank, with two products each.
  EXPECT_NEAR(wait(8, MathType::kF16) - wait(16, MathType::kF16),
              8 * engine.host_ops_per_expert * op_s, 1e-12);
  EXPECT_NEAR(wait(8, MathType::kF8) - wait(16, MathType::kF8),
              8 * engine.host_ops_per_quantized_expert * op_s, 1e-12);
  const LayerCost cost = layer_cost(workload("h100-16"), experts_over(8), true);
  const LayerCost dense = layer_cost(workload("h100-16"), experts_over(8), false);
  EXPECT_EQ(dense.host_wait_s, 0);
  // It comes on top of kernels, which cannot start, and backward has none of it.
  EXPECT_GE(cost.forward_total_s(),
            cost.forward_s + cost.forward_comm.total_s() + cost.host_wait_s);
  Workload graphs = workload("h100-16");
  graphs.cluster.device.host_op_s.value = 0;
  const LayerCost without = layer_cost(graphs, experts_over(8), true);
  EXPECT_EQ(without.host_wait_s, 0);
  EXPECT_DOUBLE_EQ(without.backward_total_s(), cost.backward_total_s());
}

TEST(LayerCostTest, ATokenGoesToARankOnce) {
  // Eight choices among eight ranks: 8 (1 - (7/8)^8) ranks are chosen by some.
  double missed = 1;
  for (int i = 0; i < 8; ++i) missed *= 7.0 / 8;
  const double ranks = 8 * (1 - missed);
  const LayerCost cost = layer_cost(workload("h100-16"), experts_over(8), true);
  const double token = 2.0 * 2048;
  EXPECT_NEAR(bytes_of(cost.forward_comm), 2 * 7.0 / 8 * 4096 * ranks * token, 1);
  EXPECT_EQ(bytes_of(cost.forward_comm), bytes_of(cost.backward_comm));
}

TEST(LayerCostTest, ATokenGoesToANodeOnce) {
  // Two nodes: all but 2^-7 of the tokens go to the other one, once, and no adapter carries more.
  const Workload w = workload("h100-16");
  const LayerCost cost = layer_cost(w, experts_over(16), true);
  const LinkLevel& network = w.cluster.levels[1];
  const double copies = 2 * (1 - 1.0 / 256);
  const double wire =
      0.5 * 4096 * copies * 2 * 2048 / (network.bandwidth.value * network.efficiency.value);
  EXPECT_GT(seconds_of(cost.forward_comm), 2 * wire);
  EXPECT_LT(seconds_of(cost.forward_comm), 2 * wire + 4e-4);  // messages to fifteen ranks
}

TEST(LayerCostTest, AnOverlappedExchangeStillSlowsKernels) {
  Workload w = workload("h100-16");
  const double alone = seconds_of(layer_cost(w, experts_over(16), true).forward_comm);
  w.overlap.experts = true;
  const double beside = seconds_of(layer_cost(w, experts_over(16), true).forward_comm);
  const double hidden = w.engine.overlap_window;
  EXPECT_NEAR(beside / alone, 1 - hidden + hidden * w.engine.overlap_slowdown, 1e-12);
}

TEST(LayerCostTest, LayersOfLaterTokensCountAsArithmetic) {
  Workload w = workload("h100-16");
  w.model = shape_of(find_model("deepseek-v3").model, 4096);
  const double without = model_flops(w);
  w.model.mtp_layers = 1;
  const ModelShape& m = w.model;
  const auto weights = static_cast<double>(m.attention_parameters() +
                                           m.experts_per_token * m.mlp_parameters(m.moe_ffn) +
                                           m.mlp_parameters(m.shared_ffn) + m.hidden * m.experts +
                                           2 * m.hidden * m.hidden + m.table_parameters());
  const auto scores = static_cast<double>((m.query_width() + m.value_width()) * 4096 / 2);
  EXPECT_NEAR(model_flops(w) - without, 6.0 * 64 * 4096 * (weights + scores), 1e9);
}

}  // namespace
}  // namespace tessera
