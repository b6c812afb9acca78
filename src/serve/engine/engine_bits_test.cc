// The same answer, to the last bit of every log probability, whatever else the engine computes
// beside it, however it cuts texts into frames, and over how many ranks the model is split.
#include <gtest/gtest.h>

#include <random>

#include "serve/engine/engine.h"
#include "serve/ranks/local_frames.h"
#include "serve/testing/served_model.h"
#include "serve/testing/text_feeder.h"
#include "serve/testing/text_listener.h"

namespace tessera::serve {
namespace {

using testing::FeedOptions;
using testing::TextListener;

// Wide enough for several chunks of a sum, of no round widths.
testing::ServedModel wide_model() {
  ModelSpec model;
  model.layers = 4;
  model.hidden = 72;
  model.ffn = 660;
  model.heads = 8;
  model.kv_heads = 4;
  model.head_dim = 24;
  model.vocab = 101;
  return testing::random_model(model, "wide");
}

std::vector<GenerationRequest> requests() {
  std::mt19937_64 random(11);
  std::vector<GenerationRequest> all;
  for (int i = 0; i < 40; ++i) {
    GenerationRequest request;
    // Some begin like others.
    for (int t = 0; t < (i % 3) * 20; ++t) request.prompt.push_back((t * 7 + i % 2) % 101);
    for (uint64_t more = 1 + random() % 30; more > 0; --more) {
      request.prompt.push_back(static_cast<int32_t>(random() % 101));
    }
    request.max_tokens = 6 + i % 12;
    request.choices = i % 4 == 1 ? 3 : 1;
    request.sampling.temperature = i % 3 == 0 ? 0 : 0.9;
    request.sampling.seed = random();
    request.sampling.logprobs = 3;
    if (i % 5 == 2) request.sampling.repetition_penalty = 1.2;
    all.push_back(std::move(request));
  }
  return all;
}

// By request and choice: tokens, and the bits of their log probabilities.
struct Answer {
  std::vector<int32_t> ids;
  std::vector<double> logprobs;
  bool operator==(const Answer&) const = default;
};
using Answers = std::vector<std::vector<Answer>>;

Answer answer_of(const TextListener::Choice& choice) {
  Answer answer;
  for (const SampledToken& token : choice.tokens) {
    answer.ids.push_back(token.token);
    answer.logprobs.push_back(token.logprob);
    for (const TokenLogprob& one : token.top) answer.logprobs.push_back(one.logprob);
  }
  return answer;
}

struct Way {
  FeedOptions ranks;
  int64_t token_budget = 2048;
  bool together = true;
  bool prefix_cache = true;
  int rounds = 1;  // the answers of the last one count
};

struct Served {
  Answers answers;
  GeneratorStats stats;
};

Served serve(Way way) {
  way.ranks.max_context = 128;
  way.ranks.max_tokens = 96;
  way.ranks.max_sequences = 64;
  if (way.ranks.num_pages == 0) way.ranks.num_pages = 64 * 128 / way.ranks.page_size;
  const testing::ServedModel model = wide_model();
  ServePlan plan = testing::test_plan(model, way.ranks);
  const TensorSource weights = model.weights(plan.buckets.front().step.layout);
  EngineOptions options;
  options.batch.token_budget = way.token_budget;
  options.batch.prefix_cache = way.prefix_cache;
  options.batch.expected_answer = 2;
  options.batch.least_chunk = 8;
  Engine engine(std::make_unique<LocalFrameRunner>(std::move(plan), weights), options);
  Served served;
  for (int round = 0; round < way.rounds; ++round) {
    std::vector<std::shared_ptr<TextListener>> heard;
    for (GenerationRequest& request : requests()) {
      heard.push_back(std::make_shared<TextListener>(request.choices));
      EXPECT_EQ(engine.submit(std::move(request), heard.back()).refused, Refused::kNo);
      if (!way.together && !heard.back()->wait()) ADD_FAILURE() << "no end";
    }
    served.answers.clear();
    for (const auto& one : heard) {
      EXPECT_TRUE(one->wait());
      EXPECT_EQ(one->broken, "");
      std::vector<Answer>& answers = served.answers.emplace_back();
      for (int choice = 0; choice < one->choices(); ++choice) {
        answers.push_back(answer_of(one->choice(choice)));
        EXPECT_EQ(one->choice(choice).finish, FinishReason::kLength) << one->choice(choice).why;
      }
    }
  }
  EXPECT_TRUE(engine.drain(std::chrono::seconds(1)));
  served.stats = engine.stats();
  EXPECT_EQ(served.stats.pages_used, 0);
  return served;
}

class EngineBits : public ::testing::TestWithParam<DType> {};

TEST_P(EngineBits, AreThoseOfARequestAlone) {
  Way alone;
  alone.ranks.dtype = GetParam();
  alone.together = alone.prefix_cache = false;
  const Answers expected = serve(alone).answers;
  Way batch = alone;
  batch.together = true;
  EXPECT_EQ(serve(batch).answers, expected) << "all together";
  for (const int64_t budget : {7, 32}) {
    Way chunks = batch;
    chunks.token_budget = budget;
    EXPECT_EQ(serve(chunks).answers, expected) << "frames of " << budget << " tokens";
  }
  Way again = batch;
  again.prefix_cache = true;
  again.rounds = 2;
  const Served hits = serve(again);
  EXPECT_EQ(hits.answers, expected) << "prefixes that the cache had";
  EXPECT_GT(hits.stats.prefix_hit_tokens_total, 300U);
  for (const int64_t page_size : {4, 32, 64}) {
    Way pages = again;
    pages.ranks.page_size = page_size;
    EXPECT_EQ(serve(pages).answers, expected) << "pages of " << page_size;
  }
  Way tight = again;
  tight.ranks.page_size = 4;
  tight.ranks.num_pages = 42;
  const Served preempted = serve(tight);
  EXPECT_EQ(preempted.answers, expected) << "preempted";
  EXPECT_GT(preempted.stats.preemptions_total, 3U);
  for (const auto& [tp, pp] : {std::pair{2, 1}, {4, 1}, {1, 2}, {2, 2}}) {
    Way split = again;
    split.ranks.tp = tp;
    split.ranks.pp = pp;
    split.ranks.threads = tp == 1 ? 2 : 1;
    EXPECT_EQ(serve(split).answers, expected) << "tp = " << tp << ", pp = " << pp;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, EngineBits, ::testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& type) { return std::string(name_of(type.param)); });

}  // namespace
}  // namespace tessera::serve
