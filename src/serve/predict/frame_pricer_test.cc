// Machines that are made up, so that every price can be counted by hand.
#include "serve/predict/frame_pricer.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/workspace.h"
#include "cost/hardware/catalogue.h"
#include "serve/predict/frame_rates.h"
#include "serve/predict/serve_prediction.h"
#include "serve/testing/served_model.h"

namespace tessera::serve {
namespace {

ModelSpec model() {
  ModelSpec model;
  model.layers = 6;
  model.hidden = 64;
  model.ffn = 96;
  model.heads = 4;
  model.kv_heads = 2;
  model.head_dim = 16;
  model.vocab = 320;
  return model;
}

// Elements of all matrices that a token is multiplied with, without the head.
constexpr double kBlockWeights = 6.0 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 64 * 96);
constexpr double kHeadWeights = 320.0 * 64;

ServeEstimate estimate_of(int64_t tp, int64_t pp, int64_t threads) {
  ServeOptions options;
  options.tp = tp;
  options.pp = pp;
  options.dtype = DType::kBF16;
  options.threads = threads;
  options.max_context = 4096;
  options.max_tokens = 64;
  options.max_sequences = options.max_rows = 16;
  options.num_pages = 4096;
  return estimate_serving(testing::random_model(model(), "priced").spec, options);
}

MeasuredKernel fit_of(const std::string& op, int threads, int tokens,
                      const std::vector<std::pair<TimeTerm, double>>& seconds) {
  MeasuredKernel kernel{op, DType::kBF16, threads, {}, tokens};
  kernel.fit.points = 1;
  for (const auto& [which, value] : seconds) {
    kernel.fit.seconds[static_cast<size_t>(which)] = value;
  }
  return kernel;
}

// A weight takes 1 ns with one token and 8 with eight, on one thread.
Cluster machine() {
  Cluster cluster = find_cluster("cpu");
  MeasuredMachine& measured = cluster.measured;
  measured.source = "a test";
  measured.cores = 2;
  for (const char* op : {"serve_linear", "any products"}) {
    measured.kernels.push_back(
        fit_of(op, 1, 1, {{TimeTerm::kRight, 1e-9}, {TimeTerm::kFar, 1e-9}}));
    measured.kernels.push_back(
        fit_of(op, 1, 8, {{TimeTerm::kRight, 8e-9}, {TimeTerm::kFar, 1e-9}}));
    measured.kernels.push_back(
        fit_of(op, 2, 1, {{TimeTerm::kRight, 0.5e-9}, {TimeTerm::kFar, 0.8e-9}}));
  }
  for (const char* op : {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send"}) {
    measured.collectives.push_back({op, "threads", 2, {}});
  }
  return cluster;
}

TEST(FramePricer, CountsEveryWeightOnce) {
  const ServeEstimate estimate = estimate_of(1, 1, 1);
  const Cluster cluster = machine();
  FramePricer pricer(estimate, cluster, "threads");
  ASSERT_TRUE(pricer.measured());
  EXPECT_NEAR(pricer.price(decode_load(1, 100)).products_s, 1e-9 * (kBlockWeights + kHeadWeights),
              1e-12);
  // Between two measured sizes of frames in proportion: 4 tokens.
  EXPECT_NEAR(pricer.price(decode_load(4, 100)).products_s, 4e-9 * (kBlockWeights + kHeadWeights),
              1e-12);
  // A frame runs as the next larger size.
  EXPECT_EQ(pricer.price(decode_load(3, 100)).products_s,
            pricer.price(decode_load(4, 100)).products_s);
  // Beyond what was measured every token takes its share.
  EXPECT_NEAR(pricer.price(decode_load(16, 100)).products_s, 16e-9 * (kBlockWeights + kHeadWeights),
              1e-11);
}

TEST(FramePricer, RanksShareTheirMatricesAndTheMemory) {
  Cluster cluster = machine();
  const ServeEstimate one = estimate_of(1, 1, 1), two = estimate_of(2, 1, 1);
  FramePricer alone(one, cluster, "threads"), together(two, cluster, "threads");
  EXPECT_NEAR(together.price(decode_load(1, 1)).products_s,
              alone.price(decode_load(1, 1)).products_s / 2, 1e-12);
  // All of it comes from memory: a team of two reads a byte in 0.8 ns, so each of two ranks in 1.6.
  cluster.measured.reading = {{1, {{1, 1, 1}}}, {2, {{1, 1, 1}}}};
  FramePricer from_memory(two, cluster, "threads");
  EXPECT_NEAR(from_memory.price(decode_load(1, 1)).products_s,
              (1e-9 + 2 * 1.6e-9) * (kBlockWeights + kHeadWeights) / 2, 1e-12);
}

TEST(FramePricer, StagesAddUpToTheWhole) {
  const Cluster cluster = machine();
  const ServeEstimate one = estimate_of(1, 1, 1), three = estimate_of(1, 3, 1);
  FramePricer alone(one, cluster, "threads"), stages(three, cluster, "threads");
  const FramePrice price = stages.price(decode_load(1, 1));
  ASSERT_EQ(price.stage_s.size(), 3U);
  EXPECT_NEAR(price.products_s, alone.price(decode_load(1, 1)).products_s, 1e-12);
  EXPECT_GE(price.total_s(), 3 * price.slowest_s() * 0.5);
  // Three ranks take turns on two cores.
  EXPECT_GT(stages.price(decode_load(1, 1), 3).products_s, price.products_s);
}

TEST(FramePricer, AttentionIsThatOfTheMemberWithTheMost) {
  KernelArgs args;
  args.heads = 8, args.kv_heads = 2, args.head_dim = 16, args.heads_per_kv = 4;
  // One sequence of 100 keys, one query: a task for each key head, two tiles.
  const AttentionWork one = attention_work(args, decode_load(1, 100), 1);
  EXPECT_EQ(one.keys, 2 * 100);
  EXPECT_EQ(one.rows, 8);
  EXPECT_EQ(one.scores, 8 * 2 * workspace::kPageTile);
  EXPECT_EQ(attention_work(args, decode_load(1, 100), 2).keys, 100);
  // Three tasks for two members: one has two of them.
  args.heads = 4, args.kv_heads = 1;
  EXPECT_EQ(attention_work(args, decode_load(3, 100), 2).keys, 200);
  // A window hides what is far behind.
  args.window = 10;
  EXPECT_EQ(attention_work(args, decode_load(1, 100), 1).keys, 10);
}

TEST(FramePricer, PromptsCostMoreTheLongerTheyAre) {
  const ServeEstimate estimate = estimate_of(1, 1, 1);
  Cluster cluster = machine();
  for (const int tokens : {1, 64}) {
    cluster.measured.kernels.push_back(
        fit_of("paged_attention", 1, tokens, {{TimeTerm::kScore, 1e-9}}));
  }
  FramePricer pricer(estimate, cluster, "threads");
  double before = 0;
  for (const int64_t length : {64, 640, 1280, 2560}) {
    const double seconds = first_token_s(pricer, estimate, length, usual_chunk(estimate, length));
    // More than in proportion: every chunk looks at all chunks before it.
    EXPECT_GT(seconds / static_cast<double>(length), before);
    before = seconds / static_cast<double>(length);
  }
}

TEST(FramePricer, ConstantsOfADeviceStandIn) {
  const ServeEstimate estimate = estimate_of(2, 1, 1);
  const Cluster cluster = find_cluster("h100-8");
  FramePricer pricer(estimate, cluster, "processes");
  EXPECT_FALSE(pricer.measured());
  const FramePrice price = pricer.price(decode_load(16, 1000));
  EXPECT_GT(price.collectives_s, 0);
  EXPECT_GT(price.kernels_s(), 6 * 7 * cluster.device.launch_s.value);
  // What has no rate there has no price, and says so.
  ServeEstimate wide = estimate_of(1, 1, 1);
  wide.spec.train.dtype = DType::kF64;
  EXPECT_THROW(FramePricer(wide, cluster, "processes"), ConfigError);
}

TEST(FrameRates, CachesLoseMoreTheMoreIsRead) {
  MeasuredMachine measured;
  measured.reading = {{1, {{100, 0, 0}, {200, 1, 0}, {400, 1, 1}}}};
  const FrameRates rates(measured);
  EXPECT_EQ(rates.misses(1, 10).mid, 0);
  EXPECT_DOUBLE_EQ(rates.misses(1, 150).mid, 0.5);
  EXPECT_DOUBLE_EQ(rates.misses(4, 300).far, 0.5);
  EXPECT_EQ(rates.misses(2, 1e9).far, 1);
}

}  // namespace
}  // namespace tessera::serve
