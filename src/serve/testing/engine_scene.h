// For tests of the engine: ranks that play a language model, and what it says to a request when
// nothing else runs.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "serve/engine/engine.h"
#include "serve/sample/sampler.h"
#include "serve/testing/text_listener.h"
#include "serve/testing/toy_model.h"

namespace tessera::serve::testing {

constexpr std::chrono::milliseconds kSoon{20'000};  // far above what anything here takes

inline ServeShape small_shape() {
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

struct EngineScene {
  explicit EngineScene(const ServeShape& shape_in = small_shape(), EngineOptions options = {})
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
inline std::vector<int32_t> alone(const GenerationRequest& request, int choice, int64_t vocab) {
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

inline GenerationRequest copy_of(const GenerationRequest& request) {
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

}  // namespace tessera::serve::testing
