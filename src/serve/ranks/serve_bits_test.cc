// The same bits for a token whatever is computed beside it, however its text is cut into chunks,
// and over how many ranks the model is split.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/error.h"
#include "base/sum_chunks.h"
#include "serve/testing/text_feeder.h"

namespace tessera::serve {
namespace {

using testing::FeedOptions;
using testing::Rows;
using testing::ServedModel;
using testing::Text;

// Widths of no round numbers, so that vectors have ends; as wide as several chunks of a sum.
ServedModel wide_model() {
  ModelSpec model;
  model.layers = 4;
  model.hidden = 72;
  model.ffn = 1320;
  model.heads = 8;
  model.kv_heads = 4;
  model.head_dim = 24;
  model.vocab = 101;
  return testing::random_model(model, "wide");
}

ServedModel gelu_model() {
  ModelSpec model;
  model.family = ModelFamily::kGpt2;
  model.layers = 2;
  model.hidden = 40;
  model.ffn = 168;
  model.heads = 4;
  model.vocab = 61;
  model.tied = true;
  model.norm = NormKind::kLayer;
  model.mlp = MlpKind::kGelu;
  model.positions = PositionKind::kLearned;
  model.max_positions = 256;
  model.attention_bias = AttentionBias::kAll;
  model.mlp_bias = true;
  return testing::random_model(model, "gelu");
}

std::vector<Text> texts_of(const ServedModel& model) {
  std::mt19937_64 random(5);
  std::vector<Text> texts;
  for (const size_t length : {1UL, 9UL, 40UL, 83UL, 130UL, 64UL}) {
    Text& text = texts.emplace_back();
    for (size_t t = 0; t < length; ++t) {
      text.push_back(
          static_cast<int32_t>(random() % static_cast<uint64_t>(model.spec.model.vocab)));
    }
  }
  return texts;
}

std::vector<Rows> serve(const ServedModel& model, FeedOptions options, int64_t chunk,
                        int64_t together, uint64_t seed) {
  options.max_context = 144;
  options.max_tokens = 160;
  const std::unique_ptr<LocalFrameRunner> runner = testing::test_runner(model, options);
  testing::TextFeeder feeder(*runner, seed);
  return feeder.feed(
      texts_of(model), [&](int64_t) { return chunk; }, together);
}

class ServeBits : public ::testing::TestWithParam<DType> {};

TEST_P(ServeBits, AreThoseOfATextAlone) {
  for (const ServedModel& model : {wide_model(), gelu_model()}) {
    SCOPED_TRACE(model.name);
    FeedOptions options;
    options.dtype = GetParam();
    const std::vector<Rows> alone = serve(model, options, /*chunk=*/512, /*together=*/1, 1);
    const auto expect_same = [&](const char* what, const FeedOptions& o, int64_t chunk,
                                 int64_t together) {
      EXPECT_EQ(serve(model, o, chunk, together, 2), alone) << what;
    };
    expect_same("one token at a time", options, 1, 1);
    expect_same("one token of each at a time", options, 1, 8);
    expect_same("chunks of 7", options, 7, 8);
    expect_same("in a batch", options, 512, 8);
    for (const int64_t tp : {2, 4}) {
      FeedOptions split = options;
      split.tp = tp;
      expect_same(tp == 2 ? "tp = 2" : "tp = 4", split, 7, 8);
    }
    FeedOptions staged = options;
    staged.pp = 2;
    expect_same("pp = 2", staged, 13, 3);
    staged.tp = 2;
    staged.threads = 2;
    staged.page_size = 32;
    expect_same("pp = 2, tp = 2, two threads, other pages", staged, 50, 8);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ServeBits, ::testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& type) { return std::string(name_of(type.param)); });

// What would be seen if the bits did depend on the split: sums of other chunks are other sums.
TEST(ServeBits, OtherChunksOfASumAreSeen) {
  const ServedModel model = wide_model();
  FeedOptions options;
  options.dtype = DType::kF32;
  options.max_context = 144;
  options.max_tokens = 160;
  const auto run = [&](int64_t tokens_of_other_chunks) {
    ServePlan plan = testing::test_plan(model, options);
    for (BucketPlan& bucket : plan.buckets) {
      if (bucket.bucket.tokens != tokens_of_other_chunks) continue;
      for (Instruction& i : bucket.programs.front().instructions) {
        if (i.op == OpKind::kServeLinear && i.args.chunks == kMostEqualRanks) i.args.chunks = 4;
      }
    }
    const TensorSource weights = model.weights(plan.buckets.front().step.layout);
    LocalFrameRunner runner(std::move(plan), weights);
    runner.keep_logits();
    testing::TextFeeder feeder(runner, 3);
    return feeder.feed(
        texts_of(model), [&](int64_t) { return int64_t{7}; }, 8);
  };
  const std::vector<Rows> right = run(0);
  EXPECT_EQ(run(0), right);
  EXPECT_NE(run(48), right) << "frames of 48 tokens have a split of their own";
}

TEST(SumChunks, AreCutAlikeForEveryNumberOfRanks) {
  for (const int64_t inner : {64, 176, 1320, 4096, 28672}) {
    for (const int64_t ranks : {1, 2, 4, 8}) {
      EXPECT_EQ(sum_chunks(inner, true, ranks), sum_chunks(inner, true, 1)) << inner;
    }
  }
  EXPECT_EQ(sum_chunks(4096, true, 1), 8);
  EXPECT_EQ(sum_chunks(28672, true, 1), 32);
  EXPECT_EQ(sum_chunks(28672, false, 1), 28);
  EXPECT_EQ(sum_chunks(64, false, 1), 1);
  EXPECT_EQ(sum_chunks(44, true, 1), 4);
  EXPECT_EQ(sum_chunks(44, true, 8), 8) << "of no equal length, and of no promise";
}

}  // namespace
}  // namespace tessera::serve
