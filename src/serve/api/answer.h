// One request under way: from tokens as the generator gives them to parts of answers as somebody
// takes them. Text is made on the workers, not on the engine's thread.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "serve/api/api_error.h"
#include "serve/api/asked.h"
#include "serve/api/choice_text.h"
#include "serve/api/metrics.h"
#include "serve/api/work_queue.h"
#include "serve/generator.h"

namespace tessera::serve {

// Who takes an answer. Called by one thread at a time; what comes after failed() or finished() is
// nothing.
class AnswerSink {
 public:
  virtual ~AnswerSink() = default;
  // More of an answer: prompt * choices + choice is its index. With a reason it is the last.
  virtual void part(int64_t index, TextPart part, std::optional<FinishReason> reason) = 0;
  virtual void finished(const GenerationUsage& usage) = 0;
  virtual void failed(const ApiError& error) = 0;
};

class Answer;

// What the answers of one server share. Thread-safe. Where it ends, no answer is heard of any more.
class AnswerDesk {
 public:
  // All must outlive it. `workers`: threads.
  AnswerDesk(Generator& generator, ServeMetrics& metrics, const Words& words, int workers);
  ~AnswerDesk();
  AnswerDesk(const AnswerDesk&) = delete;
  AnswerDesk& operator=(const AnswerDesk&) = delete;

  // Hands all prompts of a request to the generator. Throws ApiError where it refuses one; the
  // sink hears nothing then. The answer lives as long as it is under way. `make_sink` is given the
  // answer, which it may keep as a weak pointer to cancel.
  using MakeSink = std::function<std::shared_ptr<AnswerSink>(const std::weak_ptr<Answer>&)>;
  void start(std::shared_ptr<const Asked> asked, const MakeSink& make_sink);

  // Every client that still waits is told that the server ends; the generator is told to stop.
  void end_all();
  // Requests that the generator still has something to say about.
  [[nodiscard]] int open() const;

 private:
  friend class Answer;
  // Also what an answer that outlives the desk still has.
  struct Register {
    std::mutex mutex;
    std::map<const Answer*, std::weak_ptr<Answer>> live;
  };
  [[nodiscard]] std::vector<std::shared_ptr<Answer>> live() const;

  Generator& generator_;
  ServeMetrics& metrics_;
  const Words& words_;
  const std::shared_ptr<Register> register_ = std::make_shared<Register>();
  WorkQueue workers_;
};

class Answer : public std::enable_shared_from_this<Answer> {
 public:
  Answer(AnswerDesk& desk, std::shared_ptr<const Asked> asked);
  ~Answer();
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  // Nobody wants it any more: the generator is told at once, the sink hears nothing more. From any
  // thread.
  void cancel();

 private:
  friend class AnswerDesk;
  class Listener;
  using Clock = std::chrono::steady_clock;

  struct News {
    enum class Kind : uint8_t { kPrompt, kToken, kFinish, kEnd, kServerEnds } kind;
    size_t prompt = 0;
    int choice = 0;
    SampledToken token = {};
    std::vector<SampledToken> logprobs = {};
    FinishReason reason = FinishReason::kStop;
    std::string why = {};
    GenerationUsage usage = {};
    Clock::time_point at = {};
  };
  struct Choice {
    ChoiceText text;
    bool finished = false;
    Clock::time_point first = {}, last = {};  // tokens
    int64_t tokens = 0;                       // shown
  };

  void submit(std::shared_ptr<AnswerSink> sink);
  void hear(News news);
  void detach();
  void work();
  void take(News& news);
  void take_prompt(const News& news);
  void take_token(News& news, Choice& choice);
  void take_finish(const News& news, Choice& choice);
  void finish(size_t prompt, int number, TextPart part, FinishReason reason);
  void end();
  void fail(const ApiError& error);
  void cancel_all();
  [[nodiscard]] TextPart echo_of(size_t prompt, const std::vector<SampledToken>& logprobs) const;
  [[nodiscard]] Choice& choice_of(const News& news);

  AnswerDesk& desk_;
  const std::shared_ptr<AnswerDesk::Register> register_;
  const std::shared_ptr<const Asked> asked_;
  const Clock::time_point begin_ = Clock::now();
  std::shared_ptr<AnswerSink> sink_;
  std::vector<Choice> choices_;

  std::mutex mutex_;
  std::vector<GenerationId> ids_;
  std::vector<News> inbox_;
  bool submitted_ = false;  // before, news wait
  bool working_ = false;
  bool detached_ = false;
  bool over_ = false;  // the sink hears nothing more

  // Of the worker at hand alone.
  bool any_token_ = false;
  size_t prompts_ended_ = 0;
  GenerationUsage usage_;
};

}  // namespace tessera::serve
