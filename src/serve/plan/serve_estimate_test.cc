// One rank of each kind says what all of them take: the plan that is run is the reference.
#include "serve/plan/serve_estimate.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "serve/plan/serve_plan.h"
#include "serve/testing/served_model.h"

namespace tessera::serve {
namespace {

ModelSpec llama(int64_t layers, int64_t heads, int64_t kv_heads) {
  ModelSpec model;
  model.layers = layers;
  model.hidden = 48;
  model.ffn = 96;
  model.heads = heads;
  model.kv_heads = kv_heads;
  model.head_dim = 12;
  model.vocab = 101;  // no axis divides it
  return model;
}

ServeOptions options_of(int64_t tp, int64_t pp, int64_t threads) {
  ServeOptions options;
  options.tp = tp;
  options.pp = pp;
  options.dtype = DType::kBF16;
  options.threads = threads;
  options.max_context = 100;
  options.max_tokens = 24;
  options.max_sequences = 5;
  options.max_rows = 7;
  options.num_pages = 9;
  return options;
}

void expect_equal(const ServeEstimate& estimate, const ServePlan& plan) {
  ASSERT_EQ(estimate.world(), plan.world());
  EXPECT_EQ(estimate.shape.num_pages, plan.shape.num_pages);
  EXPECT_EQ(estimate.page_bytes, plan.page_bytes);
  EXPECT_EQ(estimate.total_bytes(), plan.total_bytes());
  ASSERT_EQ(estimate.buckets.size(), plan.buckets.size());
  for (int rank = 0; rank < plan.world(); ++rank) {
    SCOPED_TRACE(fmt::format("rank {}", rank));
    EXPECT_EQ(estimate.rank_bytes(rank), plan.ranks[static_cast<size_t>(rank)]);
    for (size_t b = 0; b < plan.buckets.size(); ++b) {
      EXPECT_EQ(estimate.traffic(b, rank),
                traffic_of(plan.buckets[b].programs[static_cast<size_t>(rank)]));
    }
  }
}

struct Case {
  const char* name;
  ModelSpec model;
  int64_t tp, pp, ep = 1;
};

std::vector<Case> cases() {
  ModelSpec tied = llama(5, 4, 2);
  tied.tied = true;
  ModelSpec experts = llama(4, 4, 4);
  experts.experts = 4;
  experts.experts_per_token = 2;
  experts.moe_ffn = 32;
  experts.family = ModelFamily::kMixtral;
  ModelSpec windowed = llama(7, 4, 4);
  windowed.sliding_window = 8;
  return {{"one rank", llama(3, 4, 2), 1, 1},
          {"tp splits the heads", llama(3, 4, 2), 2, 1},
          {"tp does not divide the key heads", llama(3, 4, 2), 4, 1},
          {"stages of different sizes", llama(7, 4, 2), 1, 4},
          {"tp and pp", llama(9, 4, 4), 2, 4},
          {"tied over stages", tied, 2, 3},
          {"experts", experts, 2, 2},
          {"experts over ranks", experts, 2, 1, 2},
          {"a window", windowed, 2, 3}};
}

TEST(ServeEstimate, IsThePlanThatIsRunToTheByte) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    for (const int64_t threads : {1, 3}) {
      const RunSpec model = testing::random_model(one.model, "estimated").spec;
      ServeOptions options = options_of(one.tp, one.pp, threads);
      options.ep = one.ep;
      const ServePlan plan = plan_serving(model, options);
      expect_equal(estimate_serving(model, options), plan);
      // Pages that fit in what that took, and three more.
      options.num_pages = 0;
      options.memory_bytes = plan.total_bytes() + 3 * plan.page_bytes + 64 * one.model.layers;
      expect_equal(estimate_serving(model, options), plan_serving(model, options));
      options.memory_bytes = 0;
      for (const RankBytes& rank : plan.ranks) {
        options.rank_memory_bytes = std::max(options.rank_memory_bytes, rank.total() + 9'999);
      }
      const ServePlan of_ranks = plan_serving(model, options);
      expect_equal(estimate_serving(model, options), of_ranks);
      for (const RankBytes& rank : of_ranks.ranks) {
        EXPECT_LE(rank.total(), options.rank_memory_bytes);
      }
    }
  }
}

TEST(ServeEstimate, SaysWhatDoesNotFit) {
  const RunSpec model = testing::random_model(llama(3, 4, 2), "large").spec;
  ServeOptions options = options_of(1, 1, 1);
  options.num_pages = 0;
  options.memory_bytes = 20'000;
  EXPECT_THROW(static_cast<void>(plan_serving(model, options)), Error);
  const ServeEstimate estimate = estimate_serving(model, options);
  EXPECT_FALSE(estimate.fits);
  EXPECT_EQ(estimate.shape.num_pages, 7);  // of one sequence of 100 tokens
  options.memory_bytes = estimate.total_bytes() + 64 * 3;
  EXPECT_TRUE(estimate_serving(model, options).fits);
  options.num_pages = 6;
  EXPECT_THROW(static_cast<void>(estimate_serving(model, options)), ConfigError);
}

TEST(ServeEstimate, PagesAreTheirHeadsAndLayers) {
  const RunSpec model = testing::random_model(llama(6, 4, 2), "pages").spec;
  const auto page_of_rank = [&](int64_t tp, int64_t pp) {
    const ServeEstimate estimate = estimate_serving(model, options_of(tp, pp, 1));
    EXPECT_EQ(estimate.splits_kv_heads, tp <= 2);
    return estimate.stages.front().page_bytes;
  };
  // Keys and values of 6 layers, 2 heads of 12 columns, 16 tokens, in bf16.
  const int64_t whole = 2 * 6 * 2 * 12 * 16 * 2;
  EXPECT_EQ(page_of_rank(1, 1), whole);
  EXPECT_EQ(page_of_rank(2, 1), whole / 2);
  EXPECT_EQ(page_of_rank(2, 3), whole / 6);
  EXPECT_EQ(page_of_rank(4, 1), whole);  // 4 ranks cannot share 2 heads
}

}  // namespace
}  // namespace tessera::serve
