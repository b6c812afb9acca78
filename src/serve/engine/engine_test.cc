// Answers of the engine: what they are, and when they end.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <numeric>
#include <random>
#include <thread>

#include "base/error.h"
#include "serve/testing/engine_scene.h"

namespace tessera::serve {
namespace {

using std::chrono::milliseconds;
using namespace tessera::serve::testing;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Prompts that begin alike, of all kinds of samplings.
GenerationRequest random_request(std::mt19937_64& random) {
  const auto below = [&](uint64_t n) { return static_cast<int64_t>(random() % n); };
  GenerationRequest request;
  const int64_t shared = below(3) * 9;
  for (int64_t i = 0; i < shared; ++i) request.prompt.push_back(static_cast<int32_t>(i * i % 50));
  for (int64_t more = 1 + below(20); more > 0; --more) {
    request.prompt.push_back(static_cast<int32_t>(below(50)));
  }
  request.max_tokens = 1 + below(40);
  request.min_tokens = below(2) * below(10);
  request.choices = static_cast<int>(1 + below(4));
  request.sampling.temperature = static_cast<double>(below(3)) / 2;
  request.sampling.seed = random();
  if (below(3) == 0) request.sampling.repetition_penalty = 1.3;
  if (below(3) == 0) request.sampling.frequency_penalty = 0.4;
  if (below(2) == 0) request.end_tokens = {7, 33};
  request.priority = static_cast<int>(below(3));
  if (below(4) == 0) request.salt = "somebody else";
  return request;
}

struct Batch {
  std::string name;
  int64_t page_size = 4, num_pages = 64, token_budget = 32;
  int stages = 1;
  Admission admission = Admission::kExpected;
  bool prefix_cache = true;
};

class EngineBatch : public ::testing::TestWithParam<Batch> {};

TEST_P(EngineBatch, AnswersAreThoseOfTextsAlone) {
  const Batch& how = GetParam();
  ServeShape shape = small_shape();
  shape.page_size = how.page_size;
  shape.num_pages = how.num_pages;
  shape.stages = how.stages;
  EngineOptions options;
  options.batch.token_budget = how.token_budget;
  options.batch.admission = how.admission;
  options.batch.prefix_cache = how.prefix_cache;
  options.batch.expected_answer = 4;
  options.batch.least_chunk = 4;
  EngineScene s(shape, options);
  std::mt19937_64 random(3);
  std::vector<GenerationRequest> asked;
  std::vector<std::shared_ptr<TextListener>> heard;
  for (int i = 0; i < 60; ++i) {
    asked.push_back(random_request(random));
    heard.push_back(s.submit(copy_of(asked.back())));
  }
  for (size_t i = 0; i < asked.size(); ++i) {
    ASSERT_TRUE(heard[i]->wait(kSoon)) << i;
    EXPECT_EQ(heard[i]->broken, "");
    int64_t tokens = 0;
    for (int choice = 0; choice < asked[i].choices; ++choice) {
      const std::vector<int32_t> expected = alone(asked[i], choice, shape.vocab);
      EXPECT_EQ(heard[i]->ids(choice), expected) << "request " << i << ", answer " << choice;
      const bool is_long = std::ssize(expected) == asked[i].max_tokens;
      EXPECT_EQ(heard[i]->choice(choice).finish,
                is_long ? FinishReason::kLength : FinishReason::kStop);
      tokens += std::ssize(expected);
    }
    EXPECT_EQ(heard[i]->usage().prompt_tokens, std::ssize(asked[i].prompt));
    EXPECT_EQ(heard[i]->usage().answer_tokens, tokens);
  }
  s.expect_nothing_left();
  const GeneratorStats stats = s.engine->stats();
  EXPECT_EQ(stats.preemptions_total > 0, how.name == "tight" || how.name == "tight_pipeline");
  EXPECT_EQ(stats.prefix_hit_tokens_total > 0, how.page_size < 32);
  EXPECT_EQ(stats.failed_total + stats.cancelled_total, 0U);
  EXPECT_EQ(s.watched->most_under_way, how.stages);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, EngineBatch,
    ::testing::Values(
        Batch{.name = "wide", .num_pages = 400}, Batch{.name = "tight", .num_pages = 36},
        Batch{.name = "pages_of_16", .page_size = 16, .num_pages = 100},
        Batch{.name = "pages_of_32", .page_size = 32, .num_pages = 60},
        Batch{.name = "pages_of_64", .page_size = 64, .num_pages = 60, .prefix_cache = false},
        Batch{.name = "small_frames", .num_pages = 400, .token_budget = 4},
        Batch{.name = "two_stages", .num_pages = 400, .stages = 2},
        Batch{.name = "tight_pipeline", .num_pages = 40, .stages = 3},
        Batch{.name = "guaranteed", .num_pages = 128, .admission = Admission::kGuarantee}),
    [](const auto& batch) { return batch.param.name; });

// In its queue, in its prompt, at each of its tokens; others are not disturbed.
TEST(EngineTest, CancelledAtEveryStepItLeavesNothing) {
  for (size_t tokens = 0; tokens < 12; ++tokens) {
    for (const int stages : {1, 2}) {
      ServeShape shape = small_shape();
      shape.stages = stages;
      shape.max_tokens = 8;
      EngineScene s(shape);
      GenerationRequest other = greedy_request({1, 2, 3, 4, 5, 6}, 30);
      const std::vector<int32_t> expected = alone(other, 0, shape.vocab);
      const auto undisturbed = s.submit(std::move(other));
      GenerationRequest request = greedy_request({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 16);
      request.choices = 2;
      auto listener = std::make_shared<TextListener>(2);
      std::atomic<GenerationId> id{0};
      listener->on_each = [&](int choice, const SampledToken&) {
        while (id == 0) std::this_thread::yield();  // submit() comes back without this thread
        if (choice == 1 && listener->ids(1).size() == tokens) s.engine->cancel(id);
      };
      id = s.engine->submit(std::move(request), listener).id;
      if (tokens == 0) s.engine->cancel(id);
      ASSERT_TRUE(listener->wait(kSoon));
      EXPECT_EQ(listener->broken, "");
      if (tokens > 0) {
        EXPECT_LE(listener->ids(1).size(), tokens + static_cast<size_t>(stages));
      }
      EXPECT_EQ(listener->choice(1).finish, FinishReason::kCancelled);
      ASSERT_TRUE(undisturbed->wait(kSoon));
      EXPECT_EQ(undisturbed->ids(), expected);
      s.expect_nothing_left();
    }
  }
}

TEST(EngineTest, OneAnswerOfSeveralIsCancelledAlone) {
  EngineScene s;
  GenerationRequest request = greedy_request({1, 2, 3}, 20);
  request.choices = 3;
  request.sampling.temperature = 1;
  const std::vector<int32_t> first = alone(request, 0, s.shape.vocab);
  const std::vector<int32_t> last = alone(request, 2, s.shape.vocab);
  auto listener = std::make_shared<TextListener>(3);
  std::atomic<GenerationId> id{0};
  listener->on_each = [&](int choice, const SampledToken&) {
    while (id == 0) std::this_thread::yield();  // submit() is about to say it
    if (choice == 1) s.engine->cancel_choice(id, 1);
    s.engine->cancel_choice(id, 17);  // there is none
    s.engine->cancel_choice(id, -1);
  };
  id = s.engine->submit(std::move(request), listener).id;
  ASSERT_TRUE(listener->wait(kSoon));
  EXPECT_EQ(listener->ids(0), first);
  EXPECT_EQ(listener->ids(2), last);
  EXPECT_LT(listener->ids(1).size(), 20U);
  EXPECT_EQ(listener->choice(1).finish, FinishReason::kCancelled);
  EXPECT_EQ(listener->choice(2).finish, FinishReason::kLength);
  s.engine->cancel(id);  // it has ended
  s.expect_nothing_left();
}

TEST(EngineTest, WhoseTimeIsUpIsToldSo) {
  EngineScene s;
  s.watched->on_start = [](const Frame&) { std::this_thread::sleep_for(milliseconds(2)); };
  GenerationRequest request = greedy_request({1, 2, 3}, 100);
  request.deadline = Clock::now() + milliseconds(20);
  const auto heard = s.submit(std::move(request));
  ASSERT_TRUE(heard->wait(kSoon));
  EXPECT_EQ(heard->choice().finish, FinishReason::kDeadline);
  s.expect_nothing_left();
}

TEST(EngineTest, TheMostTokensMayBeNone) {
  EngineScene s;
  GenerationRequest request = greedy_request({1, 2, 3}, 0);
  request.choices = 2;
  const auto heard = s.submit(std::move(request));
  ASSERT_TRUE(heard->wait(kSoon));
  EXPECT_TRUE(heard->ids(0).empty() && heard->ids(1).empty());
  EXPECT_EQ(heard->choice(1).finish, FinishReason::kLength);
  s.expect_nothing_left();
}

TEST(EngineTest, SaysHowLikelyThePromptWas) {
  EngineScene s;
  // Longer than a frame has rows, behind a prompt that the cache knows.
  std::vector<int32_t> prompt(40);
  std::iota(prompt.begin(), prompt.end(), 3);
  ASSERT_TRUE(s.submit(greedy_request(prompt, 3))->wait(kSoon));
  GenerationRequest request = greedy_request(prompt, 3);
  request.prompt_logprobs = true;
  request.sampling.logprobs = 2;
  const std::vector<int32_t> expected = alone(request, 0, s.shape.vocab);
  const auto heard = s.submit(std::move(request));
  ASSERT_TRUE(heard->wait(kSoon));
  EXPECT_EQ(heard->broken, "");
  EXPECT_EQ(heard->ids(), expected);
  const auto told = heard->prompt();
  ASSERT_TRUE(told && told->size() == prompt.size() - 1);
  for (size_t i = 0; i + 1 < prompt.size(); ++i) {
    const std::vector<double> logits =
        toy_logits(toy_state_of(std::span(prompt).first(i + 1)), s.shape.vocab);
    double sum = 0;
    for (const double one : logits) sum += std::exp(one);
    EXPECT_EQ((*told)[i].token, prompt[i + 1]);
    EXPECT_NEAR((*told)[i].logprob, logits[static_cast<size_t>(prompt[i + 1])] - std::log(sum),
                1e-9);
    ASSERT_EQ((*told)[i].top.size(), 2U);
    EXPECT_GE((*told)[i].top[0].logprob, (*told)[i].logprob);
  }
  s.expect_nothing_left();
}

// Allows the tokens of a text one after the other, each of them or its successor; then an end.
class LadderGrammar final : public TokenGrammar {
 public:
  explicit LadderGrammar(int32_t end) : end_(end) {}
  void allow(std::vector<uint32_t>& bits) override {
    for (const uint32_t word : bits) EXPECT_EQ(word, 0U);
    if (step_ < 5) {
      set(bits, 2 * step_);
      set(bits, 2 * step_ + 1);
      if (step_ > 2) set(bits, end_);
    } else {
      set(bits, end_);
    }
  }
  void accept(int32_t token) override {
    require(token / 2 == step_, "token {} in step {}", token, step_);
    ++step_;
  }
  [[nodiscard]] std::unique_ptr<TokenGrammar> clone() const override {
    return std::make_unique<LadderGrammar>(*this);
  }

 private:
  static void set(std::vector<uint32_t>& bits, int32_t token) {
    const auto at = static_cast<uint32_t>(token);
    if (at / 32 < bits.size()) bits[at / 32] |= 1U << (at % 32);
  }
  int32_t end_;
  int32_t step_ = 0;
};

void expect_ladder(const std::vector<int32_t>& ids, size_t least) {
  EXPECT_GE(ids.size(), least);
  EXPECT_LE(ids.size(), 5U);
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(ids[i] / 2, static_cast<int32_t>(i));
}

TEST(EngineTest, AGrammarHoldsEachAnswer) {
  for (const int stages : {1, 3}) {
    ServeShape shape = small_shape();
    shape.stages = stages;
    EngineScene s(shape);
    for (const int64_t min_tokens : {0, 4, 9}) {
      GenerationRequest request = greedy_request({1, 2, 3}, 20);
      request.grammar = std::make_unique<LadderGrammar>(40);
      request.end_tokens = {40};
      request.choices = 4;
      request.sampling.temperature = 2;
      request.min_tokens = min_tokens;
      const auto heard = s.submit(std::move(request));
      ASSERT_TRUE(heard->wait(kSoon));
      for (int choice = 0; choice < 4; ++choice) {
        EXPECT_EQ(heard->choice(choice).finish, FinishReason::kStop);
        // One that is complete ends, however short it is.
        expect_ladder(heard->ids(choice),
                      static_cast<size_t>(std::clamp<int64_t>(min_tokens, 3, 5)));
      }
    }
    s.expect_nothing_left();
  }
}

// Notes whether the frame that its mask is for had been started when it was asked for one.
class NotingGrammar final : public TokenGrammar {
 public:
  struct Asked {
    std::atomic<int> while_computing{0}, before{0};
  };
  NotingGrammar(std::shared_ptr<Watched> watched, std::shared_ptr<Asked> asked)
      : watched_(std::move(watched)), asked_(std::move(asked)) {}
  void allow(std::vector<uint32_t>& bits) override {
    ++(watched_->under_way > 0 ? asked_->while_computing : asked_->before);
    ladder_.allow(bits);
  }
  void accept(int32_t token) override { ladder_.accept(token); }
  [[nodiscard]] std::unique_ptr<TokenGrammar> clone() const override {
    return std::make_unique<NotingGrammar>(*this);
  }

 private:
  std::shared_ptr<Watched> watched_;
  std::shared_ptr<Asked> asked_;
  LadderGrammar ladder_{40};
};

// Also with one stage, where nothing else is under way: ranks do not wait for the host.
TEST(EngineTest, MasksAreMadeWhileTheirFrameIsComputed) {
  EngineScene s;
  std::atomic<int> masked{0};
  s.watched->on_start = [&](const Frame& frame) {
    for (const FrameRow& row : frame.rows) masked += row.sampling.allowed.empty() ? 0 : 1;
  };
  const auto asked = std::make_shared<NotingGrammar::Asked>();
  GenerationRequest request = greedy_request({1, 2, 3}, 20);
  request.grammar = std::make_unique<NotingGrammar>(s.watched, asked);
  request.end_tokens = {40};
  request.choices = 3;
  request.sampling.temperature = 2;
  const auto heard = s.submit(std::move(request));
  ASSERT_TRUE(heard->wait(kSoon));
  for (int choice = 0; choice < 3; ++choice) expect_ladder(heard->ids(choice), 3);
  EXPECT_GE(asked->while_computing, 3 * 4);
  EXPECT_EQ(asked->before, 0);
  EXPECT_EQ(masked, 0) << "rows that came with a mask, and waited for it before they were computed";
  s.expect_nothing_left();
}

TEST(EngineTest, AnAnswerEndsWhereItsGrammarAllowsNothing) {
  EngineScene s;
  GenerationRequest request = greedy_request({1, 2, 3}, 20);
  request.grammar = std::make_unique<LadderGrammar>(9999);  // no token of the vocabulary
  const auto heard = s.submit(std::move(request));
  ASSERT_TRUE(heard->wait(kSoon));
  EXPECT_EQ(heard->choice().finish, FinishReason::kStop);
  expect_ladder(heard->ids(), 5);
  s.expect_nothing_left();
}

class ThrowingGrammar final : public TokenGrammar {
 public:
  void allow(std::vector<uint32_t>& bits) override {
    if (++asked_ > 3) throw Error("the grammar is too deep");
    bits[0] = ~0U;
  }
  void accept(int32_t) override {}
  [[nodiscard]] std::unique_ptr<TokenGrammar> clone() const override {
    return std::make_unique<ThrowingGrammar>(*this);
  }

 private:
  int asked_ = 0;
};

TEST(EngineTest, AGrammarThatFailsEndsItsRequestAlone) {
  EngineScene s;
  GenerationRequest other = greedy_request({5, 6}, 20);
  const std::vector<int32_t> expected = alone(other, 0, s.shape.vocab);
  GenerationRequest request = greedy_request({1, 2, 3}, 20);
  request.grammar = std::make_unique<ThrowingGrammar>();
  request.choices = 2;
  const auto heard = s.submit(std::move(request));
  const auto undisturbed = s.submit(std::move(other));
  ASSERT_TRUE(heard->wait(kSoon) && undisturbed->wait(kSoon));
  EXPECT_EQ(heard->choice(0).finish, FinishReason::kFailed);
  EXPECT_EQ(heard->choice(1).why, "the grammar is too deep");
  EXPECT_EQ(undisturbed->ids(), expected);
  EXPECT_EQ(s.engine->failure(), "");
  s.expect_nothing_left();
}

TEST(EngineTest, ManyThreadsMayAskAtOnce) {
  ServeShape shape = small_shape();
  shape.stages = 2;
  shape.num_pages = 40;
  EngineOptions options;
  options.most_waiting = 1000;
  EngineScene s(shape, options);
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(static_cast<uint64_t>(t));
      for (int i = 0; i < 40; ++i) {
        const GenerationRequest request = random_request(random);
        auto listener = std::make_shared<TextListener>(request.choices);
        const Submission submission = s.engine->submit(copy_of(request), listener);
        if (i % 3 == 0) s.engine->cancel_choice(submission.id, 0);
        if (i % 5 == 0) s.engine->cancel(submission.id);
        (void)s.engine->stats();
        if (!listener->wait(kSoon) || !listener->broken.empty()) return;
        bool good = true;
        for (int choice = 0; choice < request.choices; ++choice) {
          if (listener->choice(choice).finish == FinishReason::kCancelled) continue;
          good = good && listener->ids(choice) == alone(request, choice, shape.vocab);
        }
        right += good ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 160);
  s.expect_nothing_left();
}

}  // namespace
}  // namespace tessera::serve
