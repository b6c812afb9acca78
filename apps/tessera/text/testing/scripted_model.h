// For tests: a model of bytes that says what the test wants, token by token on a thread of its own.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "serve/start/start_model.h"

namespace tessera::testing {

struct Script {
  // What is said to a prompt, which comes as text; longer ones are cut by max_tokens.
  std::function<std::string(const std::string& prompt)> answer =
      [](const std::string&) -> std::string { return "yes"; };
  // Called before each token of an answer.
  std::function<void(int64_t token)> before_token = nullptr;
  std::string fails_with;       // each answer, after its tokens
  bool last_first = false;      // of the requests that wait
  int64_t most_waiting = 1000;  // one more is refused
  int64_t max_context = 1000;
};

class ScriptedGenerator final : public serve::Generator {
 public:
  explicit ScriptedGenerator(Script script)
      : script_(std::move(script)), thread_([this] { run(); }) {}
  ~ScriptedGenerator() override {
    {
      const std::scoped_lock lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  [[nodiscard]] int64_t vocab() const override { return 256; }
  [[nodiscard]] int64_t max_context() const override { return script_.max_context; }
  serve::Submission submit(serve::GenerationRequest request,
                           std::shared_ptr<serve::GenerationListener> listener) override {
    const std::scoped_lock lock(mutex_);
    if (!failure_.empty()) return {.refused = serve::Refused::kDead, .why = failure_};
    if (std::ssize(waiting_) >= script_.most_waiting) {
      return {.refused = serve::Refused::kQueueFull, .why = ""};
    }
    taken.push_back(std::string(request.prompt.begin(), request.prompt.end()));
    seeds.push_back(request.sampling.seed);
    waiting_.push_back({++last_, std::move(request), std::move(listener)});
    changed_.notify_all();
    return {.id = last_, .why = ""};
  }
  void cancel(serve::GenerationId id) override {
    const std::scoped_lock lock(mutex_);
    cancelled_.insert(id);
  }
  void cancel_choice(serve::GenerationId id, int) override { cancel(id); }
  [[nodiscard]] serve::GeneratorStats stats() const override { return {}; }
  [[nodiscard]] std::string failure() const override {
    const std::scoped_lock lock(mutex_);
    return failure_;
  }
  [[nodiscard]] std::chrono::steady_clock::time_point last_seen_alive() const override {
    return std::chrono::steady_clock::now();
  }
  bool drain(std::chrono::milliseconds) override { return true; }

  // From any thread: what is under way fails, and nothing is taken any more.
  void die(const std::string& why) {
    const std::scoped_lock lock(mutex_);
    failure_ = why;
  }

  std::vector<std::string> taken;  // prompts
  std::vector<uint64_t> seeds;     // of each

 private:
  struct Waiting {
    serve::GenerationId id;
    serve::GenerationRequest request;
    std::shared_ptr<serve::GenerationListener> listener;
  };

  void run() {
    while (std::optional<Waiting> one = next()) answer(*one);
  }
  std::optional<Waiting> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return std::nullopt;
    if (script_.last_first) std::swap(waiting_.front(), waiting_.back());
    Waiting one = std::move(waiting_.front());
    waiting_.pop_front();
    return one;
  }
  // Empty: it goes on.
  std::optional<std::pair<serve::FinishReason, std::string>> broken(serve::GenerationId id) {
    const std::scoped_lock lock(mutex_);
    if (!failure_.empty()) return std::pair(serve::FinishReason::kFailed, failure_);
    if (ending_ || cancelled_.contains(id)) {
      return std::pair(serve::FinishReason::kCancelled, std::string());
    }
    return std::nullopt;
  }
  void answer(Waiting& one) {
    const std::string prompt(one.request.prompt.begin(), one.request.prompt.end());
    const std::string text = script_.answer(prompt);
    const int64_t tokens = std::min(std::ssize(text), one.request.max_tokens);
    serve::FinishReason reason = std::ssize(text) > one.request.max_tokens
                                     ? serve::FinishReason::kLength
                                     : serve::FinishReason::kStop;
    std::string why;
    for (int64_t i = 0; i < tokens; ++i) {
      if (script_.before_token) script_.before_token(i);
      if (const auto end = broken(one.id)) {
        std::tie(reason, why) = *end;
        break;
      }
      serve::SampledToken token;
      token.token = static_cast<uint8_t>(text[static_cast<size_t>(i)]);
      one.listener->on_token(0, token);
    }
    if (!script_.fails_with.empty()) {
      reason = serve::FinishReason::kFailed;
      why = script_.fails_with;
    }
    one.listener->on_finish(0, reason, why);
    one.listener->on_end({.prompt_tokens = std::ssize(prompt), .answer_tokens = tokens});
  }

  Script script_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Waiting> waiting_;
  std::set<serve::GenerationId> cancelled_;
  serve::GenerationId last_ = 0;
  std::string failure_;
  bool ending_ = false;
  std::thread thread_;
};

class ScriptedModel final : public serve::StartedModel {
 public:
  explicit ScriptedModel(const Script& script = {}, const std::string& chat_template = "")
      : generator_(std::make_unique<ScriptedGenerator>(script)) {
    served_.id = "scripted";
    served_.words = serve::words_of_bytes(chat_template);
    served_.vocab = 256;
    served_.max_context = script.max_context;
    plan_.options.model = "scripted";
  }
  [[nodiscard]] serve::Generator& generator() override { return *generator_; }
  [[nodiscard]] const serve::ServePlan& plan() const override { return plan_; }
  [[nodiscard]] const serve::ServedModel& served() const override { return served_; }
  [[nodiscard]] std::optional<serve::GeneratorLoss> gave_up() const override {
    const std::string why = generator_->failure();
    if (why.empty()) return std::nullopt;
    return serve::GeneratorLoss{.reason = why, .code = ExitCode::kRequeue, .curable = false};
  }
  [[nodiscard]] ScriptedGenerator& scripted() { return *generator_; }

 private:
  std::unique_ptr<ScriptedGenerator> generator_;
  serve::ServedModel served_;
  serve::ServePlan plan_;
};

}  // namespace tessera::testing
