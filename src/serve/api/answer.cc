#include "serve/api/answer.h"

#include <cmath>
#include <limits>
#include <utility>

namespace tessera::serve {
namespace {

constexpr int kRetryAfterS = 1;

ApiError error_of(const Submission& submission) {
  switch (submission.refused) {
    case Refused::kQueueFull: {
      ApiError error(429, "queue_full", "",
                     "too many requests are waiting: try again later" +
                         (submission.why.empty() ? "" : " (" + submission.why + ")"));
      error.retry_after = kRetryAfterS;
      return error;
    }
    case Refused::kTooLong:
      return {400, "context_length_exceeded", "", submission.why};
    case Refused::kDraining:
      return {503, "shutting_down", "", "this server is ending: it takes no new requests"};
    case Refused::kDead:
    case Refused::kNo:
      break;
  }
  return {503, "engine_dead", "", "the engine has failed: " + submission.why};
}

ApiError server_ends() {
  return {503, "shutting_down", "", "this server ended the answer: it is going down"};
}

SampledToken unsaid(int32_t token) {
  SampledToken sampled;
  sampled.token = token;
  sampled.logprob = std::numeric_limits<double>::quiet_NaN();
  return sampled;
}

}  // namespace

class Answer::Listener final : public GenerationListener {
 public:
  Listener(std::shared_ptr<Answer> answer, size_t prompt)
      : answer_(std::move(answer)), prompt_(prompt) {}

  void on_prompt(const std::vector<SampledToken>& logprobs) override {
    answer_->hear({.kind = News::Kind::kPrompt, .prompt = prompt_, .logprobs = logprobs});
  }
  void on_token(int choice, const SampledToken& token) override {
    answer_->hear({.kind = News::Kind::kToken,
                   .prompt = prompt_,
                   .choice = choice,
                   .token = token,
                   .at = Clock::now()});
  }
  void on_finish(int choice, FinishReason reason, const std::string& why) override {
    answer_->hear({.kind = News::Kind::kFinish,
                   .prompt = prompt_,
                   .choice = choice,
                   .reason = reason,
                   .why = why});
  }
  void on_end(const GenerationUsage& usage) override {
    answer_->hear({.kind = News::Kind::kEnd, .prompt = prompt_, .usage = usage});
  }

 private:
  std::shared_ptr<Answer> answer_;
  size_t prompt_;
};

AnswerDesk::AnswerDesk(Generator& generator, ServeMetrics& metrics, const Words& words, int workers)
    : generator_(generator), metrics_(metrics), words_(words), workers_(workers) {}

std::vector<std::shared_ptr<Answer>> AnswerDesk::live() const {
  std::vector<std::shared_ptr<Answer>> live;
  const std::lock_guard lock(register_->mutex);
  for (const auto& [key, weak] : register_->live) {
    if (auto answer = weak.lock()) live.push_back(std::move(answer));
  }
  return live;
}

// The generator may hold a lock while it tells of news: none of ours is held while it is called.
AnswerDesk::~AnswerDesk() {
  for (const auto& answer : live()) answer->detach();
}

void AnswerDesk::end_all() {
  for (const auto& answer : live()) answer->hear({.kind = Answer::News::Kind::kServerEnds});
}

int AnswerDesk::open() const {
  const std::lock_guard lock(register_->mutex);
  return static_cast<int>(register_->live.size());
}

void AnswerDesk::start(std::shared_ptr<const Asked> asked, const MakeSink& make_sink) {
  const auto answer = std::make_shared<Answer>(*this, std::move(asked));
  {
    const std::lock_guard lock(register_->mutex);
    register_->live.emplace(answer.get(), answer);
  }
  answer->submit(make_sink(answer));
}

Answer::Answer(AnswerDesk& desk, std::shared_ptr<const Asked> asked)
    : desk_(desk), register_(desk.register_), asked_(std::move(asked)) {
  const bool keep = asked_->logprobs || asked_->token_ids;
  for (size_t i = 0; i < asked_->num_answers(); ++i) {
    choices_.push_back({.text = ChoiceText(desk.words_, asked_->stops, keep)});
  }
}

Answer::~Answer() {
  const std::lock_guard lock(register_->mutex);
  register_->live.erase(this);
}

// All prompts or none; nothing is said of any before.
void Answer::submit(std::shared_ptr<AnswerSink> sink) {
  sink_ = std::move(sink);
  const bool late_echo = asked_->echo && asked_->logprobs;  // comes with its logprobs
  for (size_t prompt = 0; prompt < asked_->prompts.size(); ++prompt) {
    if (asked_->echo && !late_echo) take_prompt({.kind = News::Kind::kPrompt, .prompt = prompt});
    const Submission submission = desk_.generator_.submit(
        request_of(*asked_, prompt), std::make_shared<Listener>(shared_from_this(), prompt));
    if (submission.refused != Refused::kNo) {
      {
        const std::lock_guard lock(mutex_);
        over_ = true;
      }
      cancel_all();
      throw error_of(submission);
    }
    const std::lock_guard lock(mutex_);
    ids_.push_back(submission.id);
  }
  const std::lock_guard lock(mutex_);
  submitted_ = true;
  if (detached_ || inbox_.empty()) return;
  working_ = true;
  desk_.workers_.post([self = shared_from_this()] { self->work(); });
}

void Answer::hear(News news) {
  const std::lock_guard lock(mutex_);
  if (detached_ || over_) return;
  inbox_.push_back(std::move(news));
  if (!submitted_ || working_) return;
  working_ = true;
  desk_.workers_.post([self = shared_from_this()] { self->work(); });
}

// The desk's threads are about to end.
void Answer::detach() {
  {
    const std::lock_guard lock(mutex_);
    detached_ = over_ = true;
  }
  cancel_all();
}

void Answer::cancel() {
  {
    const std::lock_guard lock(mutex_);
    if (over_ || detached_) return;
    over_ = true;
    inbox_.clear();
  }
  cancel_all();
  desk_.metrics_.response(499);
}

void Answer::cancel_all() {
  std::vector<GenerationId> ids;
  {
    const std::lock_guard lock(mutex_);
    ids = ids_;
  }
  for (const GenerationId id : ids) desk_.generator_.cancel(id);
}

void Answer::work() {
  while (true) {
    std::vector<News> news;
    {
      const std::lock_guard lock(mutex_);
      news.swap(inbox_);
      if (over_ || news.empty()) {
        working_ = false;
        return;
      }
    }
    for (News& one : news) take(one);
  }
}

void Answer::take(News& news) {
  {
    const std::lock_guard lock(mutex_);
    if (over_) return;
  }
  switch (news.kind) {
    case News::Kind::kPrompt:
      return take_prompt(news);
    case News::Kind::kToken:
      return take_token(news, choice_of(news));
    case News::Kind::kFinish:
      return take_finish(news, choice_of(news));
    case News::Kind::kEnd:
      usage_.cached_tokens += news.usage.cached_tokens;
      if (++prompts_ended_ == asked_->prompts.size()) end();
      return;
    case News::Kind::kServerEnds:
      return fail(server_ends());
  }
}

Answer::Choice& Answer::choice_of(const News& news) {
  return choices_.at(news.prompt * static_cast<size_t>(asked_->choices) +
                     static_cast<size_t>(news.choice));
}

TextPart Answer::echo_of(size_t prompt, const std::vector<SampledToken>& logprobs) const {
  TextPart part;
  part.text = asked_->prompt_texts[prompt];
  if (!asked_->logprobs && !asked_->token_ids) return part;
  const std::vector<int32_t>& ids = asked_->prompts[prompt];
  const auto decoder = desk_.words_.decoder();
  int64_t characters = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool said = i > 0 && i - 1 < logprobs.size();
    part.tokens.push_back(said ? logprobs[i - 1] : unsaid(ids[i]));
    part.offsets.push_back(characters);
    characters += count_characters(decoder->push(ids[i]));
  }
  return part;
}

void Answer::take_prompt(const News& news) {
  if (!asked_->echo) return;
  const auto choices = static_cast<size_t>(asked_->choices);
  for (size_t i = 0; i < choices; ++i) {
    choices_[news.prompt * choices + i].text.begin_with(echo_of(news.prompt, news.logprobs));
  }
}

void Answer::take_token(News& news, Choice& choice) {
  if (!std::exchange(any_token_, true)) desk_.metrics_.first_token(news.at - begin_);
  if (choice.finished || asked_->max_tokens == 0) return;
  if (choice.tokens > 0) {
    desk_.metrics_.next_token(news.at - choice.last);
  } else {
    choice.first = news.at;
  }
  choice.last = news.at;
  ++choice.tokens;
  TextPart part = choice.text.push(std::move(news.token));
  if (choice.text.stopped()) {
    finish(news.prompt, news.choice, std::move(part), FinishReason::kStop);
    GenerationId id = 0;
    {
      const std::lock_guard lock(mutex_);
      id = ids_[news.prompt];
    }
    desk_.generator_.cancel_choice(id, news.choice);
  } else if (!part.empty()) {
    sink_->part(std::distance(choices_.data(), &choice), std::move(part), std::nullopt);
  }
}

void Answer::take_finish(const News& news, Choice& choice) {
  if (choice.finished) return;
  switch (news.reason) {
    case FinishReason::kStop:
    case FinishReason::kLength:
      break;
    case FinishReason::kCancelled:
      return fail(server_ends());
    case FinishReason::kDeadline:
      return fail({504, "timeout", "timeout",
                   "the request's time was over before its answer was complete: ask for fewer "
                   "tokens, or give it a longer timeout"});
    case FinishReason::kFailed:
      return fail({desk_.generator_.failure().empty() ? 500 : 503, "engine_failed", "",
                   "the answer failed: " + news.why});
  }
  TextPart part = choice.text.finish();
  // What was held back may have been the beginning of a stop, and then its end came with it.
  const FinishReason reason = choice.text.stopped() ? FinishReason::kStop : news.reason;
  finish(news.prompt, news.choice, std::move(part),
         asked_->max_tokens == 0 ? FinishReason::kLength : reason);
}

void Answer::finish(size_t prompt, int number, TextPart part, FinishReason reason) {
  const size_t index = prompt * static_cast<size_t>(asked_->choices) + static_cast<size_t>(number);
  Choice& choice = choices_[index];
  choice.finished = true;
  usage_.answer_tokens += choice.tokens;
  desk_.metrics_.answer(reason, choice.tokens, choice.last - choice.first);
  sink_->part(static_cast<int64_t>(index), std::move(part), reason);
}

void Answer::end() {
  for (const auto& prompt : asked_->prompts) usage_.prompt_tokens += std::ssize(prompt);
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  desk_.metrics_.request(Clock::now() - begin_, usage_.prompt_tokens, usage_.answer_tokens);
  sink_->finished(usage_);
}

void Answer::fail(const ApiError& error) {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  cancel_all();
  sink_->failed(error);
}

}  // namespace tessera::serve
