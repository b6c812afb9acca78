#include "serve/engine/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>

#include "base/error.h"
#include "serve/sample/sampler.h"
#include "serve/testing/text_listener.h"
#include "serve/testing/toy_model.h"

namespace tessera::serve {
namespace {

using std::chrono::milliseconds;
using testing::greedy_request;
using testing::TextListener;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kSoon{20'000};  // far above what anything here takes

ServeShape small_shape() {
  return {.vocab = 50,
          .max_context = 128,
          .page_size = 4,
          .num_pages = 64,
          .max_tokens = 32,
          .max_sequences = 8,
          .max_rows = 8,
          .stages = 1};
}

// What a test wants to see and change of the frames on their way.
struct Watched {
  std::function<void(const Frame&)> on_start;
  std::function<void(const Frame&, FrameResult&)> on_finish;
  std::atomic<int> under_way{0}, most_under_way{0};
};

class WatchedRunner final : public ToyRunner {
 public:
  WatchedRunner(const ServeShape& shape, std::shared_ptr<Watched> watched)
      : ToyRunner(shape), watched_(std::move(watched)) {}
  void start(const Frame& frame) override {
    watched_->most_under_way = std::max(watched_->most_under_way.load(), ++watched_->under_way);
    if (watched_->on_start) watched_->on_start(frame);
    frames_.push_back(frame);
    ToyRunner::start(frame);
  }
  FrameResult finish() override {
    FrameResult result = ToyRunner::finish();
    const Frame frame = std::move(frames_.front());
    frames_.pop_front();
    --watched_->under_way;
    if (watched_->on_finish) watched_->on_finish(frame, result);
    return result;
  }

 private:
  std::shared_ptr<Watched> watched_;
  std::deque<Frame> frames_;
};

struct Scene {
  explicit Scene(const ServeShape& shape_in = small_shape(), EngineOptions options = {})
      : shape(shape_in),
        engine(std::make_unique<Engine>(std::make_unique<WatchedRunner>(shape, watched), options)) {
  }
  std::shared_ptr<TextListener> submit(GenerationRequest request) {
    auto listener = std::make_shared<TextListener>(request.choices);
    const Submission submission = engine->submit(std::move(request), listener);
    EXPECT_EQ(submission.refused, Refused::kNo) << submission.why;
    id = submission.id;
    return listener;
  }
  // Everything that was taken has ended: nothing is held any more.
  void expect_nothing_left() {
    EXPECT_TRUE(engine->drain(kSoon));
    const GeneratorStats stats = engine->stats();
    EXPECT_EQ(stats.pages_used, 0);
    EXPECT_EQ(stats.running, 0);
    EXPECT_EQ(stats.waiting, 0);
    EXPECT_EQ(stats.pages, shape.num_pages);
  }

  std::shared_ptr<Watched> watched = std::make_shared<Watched>();
  ServeShape shape;
  std::unique_ptr<Engine> engine;
  GenerationId id = 0;  // of the last request
};

// What the model says to a prompt when nothing else runs, and all of it is computed at once.
std::vector<int32_t> alone(const GenerationRequest& request, int choice, int64_t vocab) {
  std::vector<int32_t> text = request.prompt;
  RowSampling row;
  row.how = std::make_shared<const Sampling>(request.sampling);
  row.choice = static_cast<uint32_t>(choice);
  std::vector<int32_t> answer;
  while (std::ssize(answer) < request.max_tokens) {
    row.position = std::ssize(text);
    row.counts.clear();
    std::vector<int32_t> in_answer(static_cast<size_t>(vocab));
    std::set<int32_t> seen(text.begin(), text.end());
    for (const int32_t token : answer) ++in_answer[static_cast<size_t>(token)];
    if (request.sampling.has_penalties()) {
      for (const int32_t token : seen) {
        row.counts.push_back({token, in_answer[static_cast<size_t>(token)]});
      }
    }
    row.allowed.clear();
    if (std::ssize(answer) < request.min_tokens) {
      row.allowed.assign(static_cast<size_t>((vocab + 31) / 32), 0);
      for (int32_t token = 0; token < vocab; ++token) {
        const auto& ends = request.end_tokens;
        if (std::find(ends.begin(), ends.end(), token) != ends.end()) continue;
        row.allowed[static_cast<size_t>(token / 32)] |= 1U << static_cast<uint32_t>(token % 32);
      }
    }
    const int32_t token = sample(toy_logits(toy_state_of(text), vocab), row).token;
    const auto& ends = request.end_tokens;
    if (std::find(ends.begin(), ends.end(), token) != ends.end()) break;
    text.push_back(token);
    answer.push_back(token);
  }
  return answer;
}

GenerationRequest copy_of(const GenerationRequest& request) {
  GenerationRequest copy;
  copy.prompt = request.prompt;
  copy.max_tokens = request.max_tokens;
  copy.min_tokens = request.min_tokens;
  copy.choices = request.choices;
  copy.sampling = request.sampling;
  copy.end_tokens = request.end_tokens;
  copy.priority = request.priority;
  copy.salt = request.salt;
  return copy;
}

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
  Scene s(shape, options);
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
      Scene s(shape);
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
  Scene s;
  GenerationRequest request = greedy_request({1, 2, 3}, 20);
  request.choices = 3;
  request.sampling.temperature = 1;
  const std::vector<int32_t> first = alone(request, 0, s.shape.vocab);
  const std::vector<int32_t> last = alone(request, 2, s.shape.vocab);
  auto listener = std::make_shared<TextListener>(3);
  std::atomic<GenerationId> id{0};
  listener->on_each = [&](int choice, const SampledToken&) {
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
  Scene s;
  s.watched->on_start = [](const Frame&) { std::this_thread::sleep_for(milliseconds(2)); };
  GenerationRequest request = greedy_request({1, 2, 3}, 100);
  request.deadline = Clock::now() + milliseconds(20);
  const auto heard = s.submit(std::move(request));
  ASSERT_TRUE(heard->wait(kSoon));
  EXPECT_EQ(heard->choice().finish, FinishReason::kDeadline);
  s.expect_nothing_left();
}

TEST(EngineTest, TheMostTokensMayBeNone) {
  Scene s;
  GenerationRequest request = greedy_request({1, 2, 3}, 0);
  request.choices = 2;
  const auto heard = s.submit(std::move(request));
  ASSERT_TRUE(heard->wait(kSoon));
  EXPECT_TRUE(heard->ids(0).empty() && heard->ids(1).empty());
  EXPECT_EQ(heard->choice(1).finish, FinishReason::kLength);
  s.expect_nothing_left();
}

TEST(EngineTest, SaysHowLikelyThePromptWas) {
  Scene s;
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
    Scene s(shape);
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

TEST(EngineTest, AnAnswerEndsWhereItsGrammarAllowsNothing) {
  Scene s;
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
  Scene s;
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

TEST(EngineTest, LogitsThatAreNotFiniteFailTheirRequestAndLeaveNoPages) {
  Scene s;
  std::vector<int32_t> prompt(17, 49);
  std::atomic<bool> broken{true};
  s.watched->on_finish = [&](const Frame& frame, FrameResult& result) {
    for (size_t row = 0; row < frame.rows.size(); ++row) {
      int64_t end = 0;  // of the sequence that has the row
      for (const FrameSequence& sequence : frame.sequences) {
        end += sequence.num_tokens;
        if (frame.rows[row].token_index >= end) continue;
        const bool is_bad = sequence.num_tokens == std::ssize(prompt);
        if (is_bad && broken) result.tokens[row].finite = false;
        break;
      }
    }
  };
  const auto undisturbed = s.submit(greedy_request({1, 2, 3}, 10));
  const auto heard = s.submit(greedy_request(prompt, 5));
  ASSERT_TRUE(heard->wait(kSoon) && undisturbed->wait(kSoon));
  EXPECT_EQ(heard->choice().finish, FinishReason::kFailed);
  EXPECT_NE(heard->choice().why.find("NaN"), std::string::npos) << heard->choice().why;
  EXPECT_EQ(undisturbed->choice().finish, FinishReason::kLength);
  broken = false;
  const auto again = s.submit(greedy_request(prompt, 5));
  ASSERT_TRUE(again->wait(kSoon));
  EXPECT_EQ(again->usage().cached_tokens, 0);
  EXPECT_EQ(again->choice().finish, FinishReason::kLength);
  EXPECT_EQ(s.engine->stats().failed_total, 1U);
  s.expect_nothing_left();
}

TEST(EngineTest, RanksThatAreLostFailEveryRequest) {
  for (const bool in_start : {false, true}) {
    ServeShape shape = small_shape();
    shape.stages = 2;
    Scene s(shape);
    std::atomic<int> frames{0};
    const auto lose = [&] {
      if (++frames > 5) throw Error("rank 1 (pid 7) was killed by SIGKILL", ExitCode::kRequeue);
    };
    if (in_start) s.watched->on_start = [&](const Frame&) { lose(); };
    if (!in_start) s.watched->on_finish = [&](const Frame&, FrameResult&) { lose(); };
    std::vector<std::shared_ptr<TextListener>> heard;
    for (int i = 0; i < 20; ++i) {
      auto listener = std::make_shared<TextListener>(2);
      GenerationRequest request = greedy_request({1, 2, i}, 40);
      request.choices = 2;
      const Submission submission = s.engine->submit(std::move(request), listener);
      if (submission.refused == Refused::kNo) heard.push_back(listener);
    }
    ASSERT_FALSE(heard.empty());
    for (const auto& one : heard) {
      ASSERT_TRUE(one->wait(kSoon));
      EXPECT_EQ(one->broken, "");
      EXPECT_EQ(one->choice(1).finish, FinishReason::kFailed);
      EXPECT_EQ(one->choice(1).why, "rank 1 (pid 7) was killed by SIGKILL");
    }
    EXPECT_EQ(s.engine->failure(), "rank 1 (pid 7) was killed by SIGKILL");
    ASSERT_TRUE(s.engine->how_it_failed());
    EXPECT_EQ(s.engine->how_it_failed()->code, ExitCode::kRequeue);
    const auto late = std::make_shared<TextListener>();
    const Submission refused = s.engine->submit(greedy_request({1}, 1), late);
    EXPECT_EQ(refused.refused, Refused::kDead);
    EXPECT_EQ(refused.why, s.engine->failure());
    EXPECT_EQ(s.engine->stats().failed_total, 2 * heard.size());
    s.expect_nothing_left();
  }
}

// Frames wait until the test opens the gate.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait_for(lock, kSoon, [&] { return open_; });
  }
  void wait_for_somebody() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kSoon, [&] { return waiting_ > 0; }));
  }
  void open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  bool open_ = false;
};

TEST(EngineTest, TheQueueIsBounded) {
  EngineOptions options;
  options.most_waiting = 5;
  Scene s(small_shape(), options);
  Gate gate;
  s.watched->on_finish = [&](const Frame&, FrameResult&) { gate.pass(); };
  std::vector<std::shared_ptr<TextListener>> heard = {s.submit(greedy_request({1}, 3))};
  gate.wait_for_somebody();
  for (int i = 0; i < 5; ++i) heard.push_back(s.submit(greedy_request({2, i}, 3)));
  const Submission more =
      s.engine->submit(greedy_request({9}, 3), std::make_shared<TextListener>());
  EXPECT_EQ(more.refused, Refused::kQueueFull);
  EXPECT_NE(more.why.find("5 requests"), std::string::npos) << more.why;
  EXPECT_EQ(s.engine->stats().waiting, 5);
  gate.open();
  for (const auto& one : heard) EXPECT_TRUE(one->wait(kSoon));
  EXPECT_TRUE(s.submit(greedy_request({9}, 3))->wait(kSoon)) << "there is room again";
  s.expect_nothing_left();
}

TEST(EngineTest, WhatCannotBeComputedIsRefusedWithTheNumbers) {
  Scene s;
  const auto refused = [&](GenerationRequest request) {
    const Submission submission =
        s.engine->submit(std::move(request), std::make_shared<TextListener>());
    EXPECT_EQ(submission.refused, Refused::kTooLong);
    return submission.why;
  };
  const std::string why = refused(greedy_request(std::vector<int32_t>(100, 1), 29));
  EXPECT_NE(why.find("100"), std::string::npos) << why;
  EXPECT_NE(why.find("29"), std::string::npos) << why;
  EXPECT_NE(why.find("128"), std::string::npos) << why;
  EXPECT_NE(refused(greedy_request({}, 3)).find("no tokens"), std::string::npos);
  EXPECT_NE(refused(greedy_request({1, 50}, 3)).find("token 50"), std::string::npos);
  EXPECT_NE(refused(greedy_request({-1}, 3)).find("token -1"), std::string::npos);
  GenerationRequest biased = greedy_request({1}, 3);
  biased.sampling.logit_bias = {{50, 1.0}};
  EXPECT_NE(refused(std::move(biased)).find("logit_bias"), std::string::npos);
  GenerationRequest odd = greedy_request({1}, 3);
  odd.sampling.temperature = std::nan("");
  EXPECT_NE(refused(std::move(odd)).find("finite"), std::string::npos);
  EXPECT_TRUE(s.submit(greedy_request(std::vector<int32_t>(100, 1), 28))->wait(kSoon));
  s.expect_nothing_left();
}

TEST(EngineTest, WhoDrainsTakesNothingNew) {
  Scene s;
  Gate gate;
  s.watched->on_start = [&](const Frame&) { gate.pass(); };
  const auto heard = s.submit(greedy_request({1, 2}, 5));
  EXPECT_FALSE(s.engine->drain(milliseconds(1)));
  const Submission late =
      s.engine->submit(greedy_request({1}, 3), std::make_shared<TextListener>());
  EXPECT_EQ(late.refused, Refused::kDraining);
  gate.open();
  EXPECT_TRUE(s.engine->drain(kSoon));
  EXPECT_EQ(heard->choice().finish, FinishReason::kLength);
  s.expect_nothing_left();
}

TEST(EngineTest, EverybodyIsToldWhenItIsDestroyed) {
  Scene s;
  std::vector<std::shared_ptr<TextListener>> heard;
  for (int i = 0; i < 30; ++i) heard.push_back(s.submit(greedy_request({1, i}, 100)));
  s.engine.reset();
  for (const auto& one : heard) {
    EXPECT_TRUE(one->ended());
    EXPECT_EQ(one->broken, "");
    EXPECT_TRUE(one->choice().finish == FinishReason::kFailed ||
                one->choice().finish == FinishReason::kLength);
  }
}

TEST(EngineTest, AListenerThatThrowsHarmsItsOwnRequestAlone) {
  Scene s;
  GenerationRequest other = greedy_request({5, 6}, 20);
  const std::vector<int32_t> expected = alone(other, 0, s.shape.vocab);
  auto bad = std::make_shared<TextListener>();
  bad->on_each = [](int, const SampledToken&) { throw std::runtime_error("no memory"); };
  EXPECT_EQ(s.engine->submit(greedy_request({1, 2}, 60), bad).refused, Refused::kNo);
  const auto undisturbed = s.submit(std::move(other));
  ASSERT_TRUE(undisturbed->wait(kSoon));
  EXPECT_EQ(undisturbed->ids(), expected);
  s.expect_nothing_left();
  EXPECT_EQ(bad->ids().size(), 1U);
  EXPECT_EQ(s.engine->stats().cancelled_total, 1U);
}

TEST(EngineTest, ComesRoundWithoutWork) {
  Scene s;
  const auto before = s.engine->last_seen_alive();
  const auto until = Clock::now() + kSoon;
  while (s.engine->last_seen_alive() == before && Clock::now() < until) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_GT(s.engine->last_seen_alive(), before);
}

TEST(EngineTest, ManyThreadsMayAskAtOnce) {
  ServeShape shape = small_shape();
  shape.stages = 2;
  shape.num_pages = 40;
  EngineOptions options;
  options.most_waiting = 1000;
  Scene s(shape, options);
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
