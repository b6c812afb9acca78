// A model that is served says what its forward pass in training says, of every token, to the last
// digits of f64: with prefixes that the cache had, with pages that are taken away between any two
// frames, with answers that share a prompt, and beside answers that end early.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <random>

#include "base/testing/share.h"
#include "serve/engine/engine.h"
#include "serve/testing/served_model.h"
#include "serve/testing/stepped_run.h"
#include "serve/testing/text_feeder.h"
#include "serve/testing/text_listener.h"

namespace tessera::serve {
namespace {

using testing::FeedOptions;
using testing::Rows;
using testing::SteppedRun;
using testing::Text;
using testing::TextListener;

constexpr double kTolerance = 1e-12;
constexpr int64_t kContext = 160;
constexpr int64_t kVocab = 50;

testing::ServedModel deep_model() {
  ModelSpec model;
  model.layers = 4;
  model.hidden = 32;
  model.ffn = 48;
  model.heads = 4;
  model.kv_heads = 2;
  model.head_dim = 8;
  model.vocab = kVocab;
  return testing::random_model(model, "deep");
}

struct Setting {
  int64_t page_size = 16;
  int64_t tp = 1, pp = 1;
  bool prefix_cache = true;
};

std::string text_of(const Setting& s) {
  return fmt::format("page={} tp={} pp={} prefix_cache={}", s.page_size, s.tp, s.pp,
                     s.prefix_cache);
}

// Every size of pages, on every mesh, with and without the cache of prefixes.
std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const auto& [tp, pp] : {std::pair{1, 1}, {2, 1}, {1, 2}, {4, 1}, {1, 4}, {2, 2}}) {
    for (const int64_t page_size : {16, 32, 64}) {
      for (const bool cache : {true, false}) all.push_back({page_size, tp, pp, cache});
    }
  }
  return tessera::testing::share_of(all, 5);
}

FeedOptions ranks_of(const Setting& s) {
  FeedOptions options;
  options.tp = s.tp;
  options.pp = s.pp;
  options.page_size = s.page_size;
  options.max_context = kContext;
  options.max_tokens = 24;
  return options;
}

BatchOptions batch_of(const Setting& s) {
  BatchOptions options;
  options.prefix_cache = s.prefix_cache;
  options.least_chunk = 8;
  options.expected_answer = 2;
  return options;
}

// Prompts that begin alike, longer than a page of any size; one has three answers, one its rows.
std::vector<BatchRequest> batch_requests() {
  std::mt19937_64 random(21);
  std::vector<BatchRequest> all;
  for (GenerationId id = 1; id <= 3; ++id) {
    BatchRequest request;
    request.id = id;
    for (int32_t t = 0; t < 66; ++t) request.prompt.push_back(t * 7 % kVocab);
    for (uint64_t more = 1 + random() % 12; more > 0; --more) {
      request.prompt.push_back(static_cast<int32_t>(random() % kVocab));
    }
    request.max_tokens = 5;
    request.choices = id == 2 ? 3 : 1;
    request.prompt_rows = id == 3;
    all.push_back(std::move(request));
  }
  return all;
}

class Stepped {
 public:
  explicit Stepped(const Setting& setting)
      : model_(deep_model()),
        runner_(testing::test_runner(model_, ranks_of(setting))),
        setting_(setting) {}

  // One batch, with what `change` does behind every frame; the frames it took.
  int64_t run(const std::function<void(SteppedRun&, int64_t frame)>& change) {
    SteppedRun run(*runner_, batch_of(setting_));
    run.on_frame = [&](int64_t frame) {
      if (change) change(run, frame);
    };
    for (const BatchRequest& request : batch_requests()) run.add(request);
    run.run();
    EXPECT_LE(run.difference_from(model_), kTolerance);
    EXPECT_EQ(run.scheduler().stats().pages_used, 0);
    last_ = run.scheduler().stats();
    copies_ = run.copies();
    rows_ = run.rows();
    return run.frames();
  }
  [[nodiscard]] const BatchStats& last() const { return last_; }
  [[nodiscard]] int64_t copies() const { return copies_; }
  [[nodiscard]] int64_t rows() const { return rows_; }

 private:
  testing::ServedModel model_;
  std::unique_ptr<LocalFrameRunner> runner_;
  Setting setting_;
  BatchStats last_;
  int64_t copies_ = 0, rows_ = 0;
};

TEST(EngineEquivalence, OfAnswersThatShareAPromptAndItsPages) {
  for (const Setting& setting : settings()) {
    SCOPED_TRACE(text_of(setting));
    Stepped stepped(setting);
    // One more comes when the pages of others are full.
    stepped.run([](SteppedRun& run, int64_t frame) {
      if (frame != 6) return;
      BatchRequest late = batch_requests().front();
      late.id = 9;
      run.add(late);
    });
    EXPECT_GE(stepped.rows(), 30 + 66) << "six answers of five tokens, and a prompt's rows";
    EXPECT_GT(stepped.copies(), 0) << "the last page of a prompt was written by each of three";
    if (setting.prefix_cache) {
      EXPECT_GT(stepped.last().prefix_hit_tokens, 0U);
    } else {
      EXPECT_EQ(stepped.last().prefix_hit_tokens, 0U);
    }
  }
}

TEST(EngineEquivalence, WithPreemptionBehindEveryToken) {
  for (const Setting& setting : settings()) {
    SCOPED_TRACE(text_of(setting));
    Stepped stepped(setting);
    std::map<std::pair<GenerationId, int>, int64_t> seen;  // tokens, when it was preempted
    stepped.run([&](SteppedRun& run, int64_t frame) {
      for (const auto& [id, choice] : run.answers()) {
        int64_t& tokens = seen.try_emplace({id, choice}, run.tokens(id, choice)).first->second;
        const bool has_more = run.tokens(id, choice) > tokens;
        if (!has_more && frame != 1 && frame != 4) continue;
        run.scheduler().preempt(id, choice);
        tokens = run.tokens(id, choice);
      }
    });
    EXPECT_GE(stepped.last().preemptions, 12U) << "of five answers of five tokens";
    if (!setting.prefix_cache) {
      EXPECT_GT(stepped.last().recomputed_tokens, 1000U);
    }
  }
}

TEST(EngineEquivalence, BesideAnswersThatEndBehindAnyFrame) {
  for (const Setting& setting : settings()) {
    SCOPED_TRACE(text_of(setting));
    Stepped stepped(setting);
    int64_t frames = 1;
    for (int64_t at = 0; at < frames; ++at) {
      const int64_t took = stepped.run([at](SteppedRun& run, int64_t frame) {
        const auto running = run.answers();
        if (frame != at || running.empty()) return;
        const auto& [id, choice] = running[static_cast<size_t>(frame) % running.size()];
        run.end(id, choice);
      });
      frames = std::max(frames, took);
    }
    EXPECT_GT(frames, 10);
  }
}

// By the whole engine: the log probabilities of the whole vocabulary.
std::vector<double> log_softmax(const std::vector<double>& logits) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double value : logits) sum += std::exp(value - top);
  std::vector<double> result;
  for (const double value : logits) result.push_back(value - top - std::log(sum));
  return result;
}

struct Heard {
  GenerationRequest request;
  std::shared_ptr<TextListener> listener;
};

GenerationRequest engine_request(std::mt19937_64& random, int number) {
  GenerationRequest request;
  for (int t = 0; t < number % 3 * 33; ++t) request.prompt.push_back((t * 7 + number % 2) % kVocab);
  for (uint64_t more = 1 + random() % 20; more > 0; --more) {
    request.prompt.push_back(static_cast<int32_t>(random() % kVocab));
  }
  request.max_tokens = 8 + number % 9;
  request.choices = number % 4 == 1 ? 3 : 1;
  request.sampling.temperature = 1;
  request.sampling.seed = random();
  request.sampling.logprobs = kVocab;
  return request;
}

void expect_training_said(const testing::ServedModel& model, const std::vector<Heard>& heard) {
  std::vector<Text> texts;
  for (const Heard& one : heard) {
    for (int choice = 0; choice < one.listener->choices(); ++choice) {
      Text& text = texts.emplace_back(one.request.prompt);
      const std::vector<int32_t> answer = one.listener->ids(choice);
      text.insert(text.end(), answer.begin(), answer.end());
    }
  }
  const std::vector<Rows> reference = reference_logits(model, texts);
  size_t i = 0;
  double largest = 0;
  for (const Heard& one : heard) {
    for (int choice = 0; choice < one.listener->choices(); ++choice, ++i) {
      size_t position = one.request.prompt.size() - 1;
      for (const SampledToken& token : one.listener->choice(choice).tokens) {
        const std::vector<double> expected = log_softmax(reference[i][position++]);
        ASSERT_EQ(token.top.size(), expected.size());
        for (const TokenLogprob& said : token.top) {
          const double right = expected[static_cast<size_t>(said.token)];
          largest =
              std::max(largest, std::abs(said.logprob - right) / std::max(1., std::abs(right)));
        }
      }
    }
  }
  EXPECT_LE(largest, kTolerance);
}

TEST(EngineEquivalence, OfAnEngineWithFewPagesThatSomeLeaveEarly) {
  const testing::ServedModel model = deep_model();
  uint64_t preemptions = 0, hits = 0;
  for (const Setting& setting : settings()) {
    SCOPED_TRACE(text_of(setting));
    FeedOptions ranks = ranks_of(setting);
    ranks.num_pages = kContext / setting.page_size + 2;
    ServePlan plan = testing::test_plan(model, ranks);
    const TensorSource weights = model.weights(plan.buckets.front().step.layout);
    Engine engine(std::make_unique<LocalFrameRunner>(std::move(plan), weights),
                  EngineOptions{.batch = batch_of(setting)});
    std::mt19937_64 random(8);
    std::vector<Heard> heard;
    for (int number = 0; number < 16; ++number) {
      Heard& one = heard.emplace_back();
      GenerationRequest request = engine_request(random, number);
      one.request.prompt = request.prompt;
      one.listener = std::make_shared<TextListener>(request.choices);
      // Some leave after their first, second, ... token.
      const auto id = std::make_shared<std::atomic<GenerationId>>(0);
      if (number % 3 == 2) {
        one.listener->on_each = [&engine, id, left = number / 3 + 1](int,
                                                                     const SampledToken&) mutable {
          if (--left <= 0) engine.cancel(*id);
        };
      }
      const Submission submission = engine.submit(std::move(request), one.listener);
      ASSERT_EQ(submission.refused, Refused::kNo) << submission.why;
      *id = submission.id;
    }
    for (const Heard& one : heard) {
      ASSERT_TRUE(one.listener->wait());
      EXPECT_EQ(one.listener->broken, "");
    }
    expect_training_said(model, heard);
    EXPECT_TRUE(engine.drain(std::chrono::seconds(5)));
    const GeneratorStats stats = engine.stats();
    EXPECT_EQ(stats.pages_used, 0);
    preemptions += stats.preemptions_total;
    hits += stats.prefix_hit_tokens_total;
  }
  EXPECT_GT(preemptions, 0U);
  EXPECT_GT(hits, 0U);
}

}  // namespace
}  // namespace tessera::serve
