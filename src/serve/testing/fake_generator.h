// For tests: a Generator that does what the test says, and notes what it was asked.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "serve/generator.h"

namespace tessera::serve::testing {

// What the test holds; the generator itself is somebody else's.
class FakeState {
 public:
  struct Taken {
    GenerationRequest request;
    std::shared_ptr<GenerationListener> listener;
  };

  void refuse(Refused how) {
    with([&] { refused_ = how; });
  }
  // A token for every choice of every request.
  void step() {
    for (auto& [id, one] : copy()) {
      with([&] { ++stats_.answer_tokens_total; });
      for (int choice = 0; choice < choices_.at(id); ++choice) one->on_token(choice, {});
    }
  }
  void end_all(FinishReason reason, const std::string& why = "") {
    std::map<GenerationId, std::shared_ptr<GenerationListener>> all;
    with([&] { all = std::exchange(listeners_, {}); });
    for (auto& [id, one] : all) {
      for (int choice = 0; choice < choices_.at(id); ++choice) one->on_finish(choice, reason, why);
      one->on_end({});
    }
  }
  // As an engine whose ranks are lost.
  void die(const std::string& why) {
    with([&] { failure_ = why; });
    end_all(FinishReason::kFailed, why);
  }
  // Ranks come further inside of a frame.
  void come_further() {
    with([&] { ++stats_.rank_progress; });
  }
  void look_dead(bool silent) {
    with([&] { silent_ = silent; });
  }

  std::vector<GenerationRequest>& taken() { return taken_; }
  std::vector<GenerationId>& cancelled() { return cancelled_; }
  [[nodiscard]] bool destroyed() const { return destroyed_; }

 private:
  friend class FakeGenerator;
  void with(const std::function<void()>& f) {
    const std::scoped_lock lock(mutex_);
    f();
  }
  std::map<GenerationId, std::shared_ptr<GenerationListener>> copy() {
    const std::scoped_lock lock(mutex_);
    return listeners_;
  }

  std::mutex mutex_;
  std::vector<GenerationRequest> taken_;
  std::map<GenerationId, std::shared_ptr<GenerationListener>> listeners_;
  std::map<GenerationId, int> choices_;
  std::vector<GenerationId> cancelled_;
  Refused refused_ = Refused::kNo;
  std::string failure_;
  bool silent_ = false;
  bool destroyed_ = false;
  GeneratorStats stats_;
};

class FakeGenerator final : public Generator {
 public:
  explicit FakeGenerator(std::shared_ptr<FakeState> state) : state_(std::move(state)) {}
  ~FakeGenerator() override {
    state_->end_all(FinishReason::kFailed, "the generator is gone");
    state_->destroyed_ = true;
  }

  [[nodiscard]] int64_t vocab() const override { return 100; }
  [[nodiscard]] int64_t max_context() const override { return 1000; }
  Submission submit(GenerationRequest request,
                    std::shared_ptr<GenerationListener> listener) override {
    const std::scoped_lock lock(state_->mutex_);
    if (!state_->failure_.empty()) return {.refused = Refused::kDead, .why = state_->failure_};
    if (state_->refused_ != Refused::kNo) return {.refused = state_->refused_, .why = "refused"};
    const GenerationId id = state_->taken_.size() + 1;
    state_->choices_[id] = request.choices;
    state_->listeners_[id] = std::move(listener);
    state_->taken_.push_back(std::move(request));
    return {.id = id, .why = ""};
  }
  void cancel(GenerationId id) override {
    const std::scoped_lock lock(state_->mutex_);
    state_->cancelled_.push_back(id);
  }
  void cancel_choice(GenerationId id, int choice) override {
    cancel(id * 100 + static_cast<GenerationId>(choice));
  }
  [[nodiscard]] GeneratorStats stats() const override {
    const std::scoped_lock lock(state_->mutex_);
    GeneratorStats stats = state_->stats_;
    stats.running = static_cast<int64_t>(state_->listeners_.size());
    stats.pages = 10;
    return stats;
  }
  [[nodiscard]] std::string failure() const override {
    const std::scoped_lock lock(state_->mutex_);
    return state_->failure_;
  }
  [[nodiscard]] std::chrono::steady_clock::time_point last_seen_alive() const override {
    const std::scoped_lock lock(state_->mutex_);
    return state_->silent_ ? std::chrono::steady_clock::time_point::min()
                           : std::chrono::steady_clock::now();
  }
  bool drain(std::chrono::milliseconds) override { return stats().running == 0; }

 private:
  std::shared_ptr<FakeState> state_;
};

// Notes what it is told.
class NotingListener final : public GenerationListener {
 public:
  void on_token(int, const SampledToken&) override { ++tokens; }
  void on_finish(int, FinishReason reason, const std::string& text) override {
    ++finished;
    last = reason;
    why = text;
  }
  void on_end(const GenerationUsage&) override { ++ended; }
  int tokens = 0, finished = 0, ended = 0;
  FinishReason last = FinishReason::kStop;
  std::string why;
};

inline GenerationRequest request_of(std::vector<int32_t> prompt, int64_t max_tokens = 8) {
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  return request;
}

}  // namespace tessera::serve::testing
