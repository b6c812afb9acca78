// What the engine does where ranks, requests or listeners fail, and where too much is asked.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>

#include "base/error.h"
#include "serve/testing/engine_scene.h"

namespace tessera::serve {
namespace {

using namespace tessera::serve::testing;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

TEST(EngineFaults, LogitsThatAreNotFiniteFailTheirRequestAndLeaveNoPages) {
  EngineScene s;
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

TEST(EngineFaults, RanksThatAreLostFailEveryRequest) {
  for (const bool in_start : {false, true}) {
    ServeShape shape = small_shape();
    shape.stages = 2;
    EngineScene s(shape);
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

TEST(EngineFaults, TheQueueIsBounded) {
  EngineOptions options;
  options.most_waiting = 5;
  EngineScene s(small_shape(), options);
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

TEST(EngineFaults, WhatCannotBeComputedIsRefusedWithTheNumbers) {
  EngineScene s;
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
  GenerationRequest talkative = greedy_request({1}, 3);
  talkative.sampling.logprobs = 1025;
  EXPECT_NE(refused(std::move(talkative)).find("1025"), std::string::npos);
  EXPECT_TRUE(s.submit(greedy_request(std::vector<int32_t>(100, 1), 28))->wait(kSoon));
  s.expect_nothing_left();
}

// As clients that go away at any moment: nothing of them stays.
TEST(EngineFaults, TenThousandThatAreCancelledLeaveNothing) {
  ServeShape shape = small_shape();
  shape.stages = 2;
  EngineScene s(shape);
  std::mt19937_64 random(1);
  std::deque<std::pair<GenerationId, std::shared_ptr<TextListener>>> open;
  for (int i = 0; i < 10'000; ++i) {
    auto listener = std::make_shared<TextListener>();
    const auto token = static_cast<int32_t>(random() % 50);
    const Submission submission =
        s.engine->submit(greedy_request({1, 2, 3, 4, 5, token, 7}, 60), listener);
    ASSERT_EQ(submission.refused, Refused::kNo) << submission.why;
    open.emplace_back(submission.id, std::move(listener));
    if (open.size() < 20) continue;
    const size_t which = random() % open.size();
    s.engine->cancel(open[which].first);
    ASSERT_TRUE(open[which].second->wait(kSoon));
    ASSERT_EQ(open[which].second->broken, "");
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(which));
  }
  for (const auto& [id, listener] : open) s.engine->cancel(id);
  s.expect_nothing_left();
  const GeneratorStats stats = s.engine->stats();
  EXPECT_EQ(stats.finished_total + stats.cancelled_total, 10'000U);
}

TEST(EngineFaults, WhoDrainsTakesNothingNew) {
  EngineScene s;
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

TEST(EngineFaults, EverybodyIsToldWhenItIsDestroyed) {
  EngineScene s;
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

TEST(EngineFaults, AListenerThatThrowsHarmsItsOwnRequestAlone) {
  EngineScene s;
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

TEST(EngineFaults, ComesRoundWithoutWork) {
  EngineScene s;
  const auto before = s.engine->last_seen_alive();
  const auto until = Clock::now() + kSoon;
  while (s.engine->last_seen_alive() == before && Clock::now() < until) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_GT(s.engine->last_seen_alive(), before);
}

}  // namespace
}  // namespace tessera::serve
