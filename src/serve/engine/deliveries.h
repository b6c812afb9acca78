// What listeners are to be told, kept until the ranks have something to do.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "serve/generator.h"

namespace tessera::serve {

// Who hears of one request. One that throws hears nothing more.
struct Audience {
  GenerationId id = 0;
  std::shared_ptr<GenerationListener> listener;
  bool is_gone = false;
};

class Deliveries {
 public:
  void prompt(std::shared_ptr<Audience> to, std::vector<SampledToken> logprobs) {
    news_.push_back({.kind = Kind::kPrompt, .to = std::move(to), .prompt = std::move(logprobs)});
  }
  void token(std::shared_ptr<Audience> to, int choice, SampledToken token) {
    news_.push_back(
        {.kind = Kind::kToken, .to = std::move(to), .choice = choice, .token = std::move(token)});
  }
  void finish(std::shared_ptr<Audience> to, int choice, FinishReason reason, std::string why) {
    news_.push_back({.kind = Kind::kFinish,
                     .to = std::move(to),
                     .choice = choice,
                     .reason = reason,
                     .why = std::move(why)});
  }
  void end(std::shared_ptr<Audience> to, const GenerationUsage& usage) {
    news_.push_back({.kind = Kind::kEnd, .to = std::move(to), .usage = usage});
  }

  // In the order in which it happened. `ended` is called for each request once its listener has
  // heard all, `gone` for one that threw.
  template <typename Ended, typename Gone>
  void deliver(const Ended& ended, const Gone& gone) {
    for (News& one : news_) {
      try {
        if (!one.to->is_gone) one.tell();
      } catch (...) {
        one.to->is_gone = true;
        gone(one.to->id);
      }
      if (one.kind != Kind::kEnd) continue;
      one.to->listener.reset();
      ended(one.to->id);
    }
    news_.clear();
  }

 private:
  enum class Kind : uint8_t { kPrompt, kToken, kFinish, kEnd };
  struct News {
    Kind kind = Kind::kToken;
    std::shared_ptr<Audience> to;
    int choice = 0;
    FinishReason reason = FinishReason::kStop;
    SampledToken token = {};
    std::vector<SampledToken> prompt = {};
    std::string why = {};
    GenerationUsage usage = {};

    void tell() {
      GenerationListener& listener = *to->listener;
      switch (kind) {
        case Kind::kPrompt:
          return listener.on_prompt(prompt);
        case Kind::kToken:
          return listener.on_token(choice, token);
        case Kind::kFinish:
          return listener.on_finish(choice, reason, why);
        case Kind::kEnd:
          return listener.on_end(usage);
      }
    }
  };
  std::vector<News> news_;
};

}  // namespace tessera::serve
