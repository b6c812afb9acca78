// For tests: what one request was told, for threads that wait for it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "serve/generator.h"

namespace tessera::serve::testing {

class TextListener final : public GenerationListener {
 public:
  struct Choice {
    std::vector<SampledToken> tokens;
    std::optional<FinishReason> finish;
    std::string why;
    [[nodiscard]] std::vector<int32_t> ids() const {
      std::vector<int32_t> ids;
      for (const SampledToken& one : tokens) ids.push_back(one.token);
      return ids;
    }
  };
  // What broke the contract of listeners; empty: nothing.
  std::string broken;
  // Called with every token, on the engine's thread.
  std::function<void(int choice, const SampledToken& token)> on_each;

  explicit TextListener(int choices = 1) : choices_(static_cast<size_t>(choices)) {}

  void on_prompt(const std::vector<SampledToken>& logprobs) override {
    const std::scoped_lock lock(mutex_);
    if (prompt_ || !choices_.front().tokens.empty()) broken = "the prompt came late or twice";
    prompt_ = logprobs;
  }
  void on_token(int choice, const SampledToken& token) override {
    {
      const std::scoped_lock lock(mutex_);
      Choice& one = choices_.at(static_cast<size_t>(choice));
      if (one.finish || ended_) broken = "a token came behind the end";
      one.tokens.push_back(token);
      changed_.notify_all();
    }
    if (on_each) on_each(choice, token);
  }
  void on_finish(int choice, FinishReason reason, const std::string& why) override {
    const std::scoped_lock lock(mutex_);
    Choice& one = choices_.at(static_cast<size_t>(choice));
    if (one.finish || ended_) broken = "an answer finished twice";
    one.finish = reason;
    one.why = why;
    changed_.notify_all();
  }
  void on_end(const GenerationUsage& usage) override {
    const std::scoped_lock lock(mutex_);
    for (const Choice& one : choices_) {
      if (!one.finish) broken = "the end came before that of an answer";
    }
    if (ended_) broken = "the end came twice";
    ended_ = true;
    usage_ = usage;
    changed_.notify_all();
  }

  // False: it did not come in time.
  [[nodiscard]] bool wait(std::chrono::milliseconds longest = std::chrono::seconds(60)) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, longest, [&] { return ended_; });
  }
  [[nodiscard]] bool wait_for_tokens(size_t tokens,
                                     std::chrono::milliseconds longest = std::chrono::seconds(60)) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, longest,
                             [&] { return ended_ || choices_.front().tokens.size() >= tokens; });
  }
  [[nodiscard]] Choice choice(int which = 0) const {
    const std::scoped_lock lock(mutex_);
    return choices_.at(static_cast<size_t>(which));
  }
  [[nodiscard]] std::vector<int32_t> ids(int which = 0) const { return choice(which).ids(); }
  [[nodiscard]] bool ended() const {
    const std::scoped_lock lock(mutex_);
    return ended_;
  }
  [[nodiscard]] GenerationUsage usage() const {
    const std::scoped_lock lock(mutex_);
    return usage_;
  }
  [[nodiscard]] std::optional<std::vector<SampledToken>> prompt() const {
    const std::scoped_lock lock(mutex_);
    return prompt_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Choice> choices_;
  std::optional<std::vector<SampledToken>> prompt_;
  bool ended_ = false;
  GenerationUsage usage_;
};

inline GenerationRequest greedy_request(std::vector<int32_t> prompt, int64_t max_tokens) {
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  return request;
}

}  // namespace tessera::serve::testing
