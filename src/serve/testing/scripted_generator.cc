#include "serve/testing/scripted_generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "serve/api/readiness.h"

namespace tessera::serve::testing {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<int32_t> alphabet(int choice) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < 2000; ++i) tokens.push_back('a' + (i + choice) % 26);
  return tokens;
}

// Halves from token to token: what a test can write down.
SampledToken sampled(const GenerationRequest& request, int32_t token, int64_t vocab) {
  SampledToken one;
  one.token = token;
  one.logprob = -0.5;
  for (int i = 0; i < request.sampling.logprobs; ++i) {
    one.top.push_back({static_cast<int32_t>((token + i) % vocab), -0.5 * (i + 1)});
  }
  return one;
}

GenerationRequest copy_of(const GenerationRequest& request) {
  GenerationRequest copy;
  copy.prompt = request.prompt;
  copy.max_tokens = request.max_tokens;
  copy.min_tokens = request.min_tokens;
  copy.choices = request.choices;
  copy.sampling = request.sampling;
  copy.end_tokens = request.end_tokens;
  copy.prompt_logprobs = request.prompt_logprobs;
  copy.priority = request.priority;
  copy.salt = request.salt;
  copy.deadline = request.deadline;
  return copy;
}

}  // namespace

std::vector<int32_t> bytes_as_tokens(std::string_view text) {
  std::vector<int32_t> tokens;
  for (const char byte : text) tokens.push_back(static_cast<uint8_t>(byte));
  return tokens;
}

int64_t ScriptedGenerator::Text::places() const {
  return std::count_if(choices.begin(), choices.end(),
                       [](const Choice& choice) { return !choice.finished; });
}

bool ScriptedGenerator::Text::ended() const { return places() == 0; }

ScriptedGenerator::ScriptedGenerator(ScriptOptions options) : options_(std::move(options)) {
  thread_ = std::thread([this] { run(); });
}

ScriptedGenerator::~ScriptedGenerator() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Submission ScriptedGenerator::submit(GenerationRequest request,
                                     std::shared_ptr<GenerationListener> listener) {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) return {.refused = Refused::kDead, .why = failure_};
  if (draining_) return {.refused = Refused::kDraining, .why = ""};
  const auto length = std::ssize(request.prompt) + request.max_tokens;
  if (length > options_.max_context) {
    return {.refused = Refused::kTooLong,
            .why = fmt::format("{} tokens are more than {}", length, options_.max_context)};
  }
  const auto waiting =
      std::count_if(texts_.begin(), texts_.end(), [](const Text& text) { return !text.begun; });
  if (waiting >= options_.most_waiting) {
    return {.refused = Refused::kQueueFull, .why = fmt::format("{} wait", waiting)};
  }
  Text text;
  text.id = ++last_id_;
  for (int i = 0; i < request.choices; ++i) {
    Choice choice;
    choice.script = options_.answer ? options_.answer(request, i) : alphabet(i);
    if (request.grammar != nullptr) choice.grammar = request.grammar->clone();
    text.choices.push_back(std::move(choice));
  }
  if (request.priority != kProbePriority) asked_.push_back(copy_of(request));
  text.request = std::move(request);
  text.listener = std::move(listener);
  texts_.push_back(std::move(text));
  changed_.notify_all();
  return {.id = last_id_, .why = ""};
}

void ScriptedGenerator::cancel(GenerationId id) {
  const std::lock_guard lock(mutex_);
  for (Text& text : texts_) {
    if (text.id != id) continue;
    for (Choice& choice : text.choices) choice.cancelled = true;
  }
  changed_.notify_all();
}

void ScriptedGenerator::cancel_choice(GenerationId id, int choice) {
  const std::lock_guard lock(mutex_);
  for (Text& text : texts_) {
    if (text.id == id) text.choices.at(static_cast<size_t>(choice)).cancelled = true;
  }
  changed_.notify_all();
}

GeneratorStats ScriptedGenerator::stats() const {
  const std::lock_guard lock(mutex_);
  GeneratorStats stats = totals_;
  stats.pages = options_.most_running * options_.max_context / options_.page;
  for (const Text& text : texts_) {
    if (!text.begun) {
      ++stats.waiting;
      continue;
    }
    stats.running += text.places();
    for (const Choice& choice : text.choices) {
      const auto tokens = std::ssize(text.request.prompt) + std::ssize(choice.written);
      if (!choice.finished) stats.pages_used += (tokens + options_.page - 1) / options_.page;
    }
  }
  return stats;
}

std::string ScriptedGenerator::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

Clock::time_point ScriptedGenerator::last_seen_alive() const {
  const std::lock_guard lock(mutex_);
  return seen_;
}

bool ScriptedGenerator::drain(std::chrono::milliseconds longest) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  return changed_.wait_for(lock, longest, [this] { return texts_.empty(); });
}

void ScriptedGenerator::halt(Halt where) {
  const std::lock_guard lock(mutex_);
  halt_ = where;
  changed_.notify_all();
}

void ScriptedGenerator::die(const std::string& why) {
  const std::lock_guard lock(mutex_);
  failure_ = why;
  changed_.notify_all();
}

void ScriptedGenerator::freeze(bool frozen) {
  const std::lock_guard lock(mutex_);
  frozen_ = frozen;
  changed_.notify_all();
}

int ScriptedGenerator::in(Halt part) const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(std::count_if(texts_.begin(), texts_.end(), [part](const Text& text) {
    if (part == Halt::kQueued) return !text.begun;
    if (part == Halt::kPrefill) return text.begun && !text.computed;
    return text.computed && !text.choices.front().written.empty();
  }));
}

std::vector<GenerationRequest> ScriptedGenerator::asked() const {
  const std::lock_guard lock(mutex_);
  std::vector<GenerationRequest> copies;
  for (const GenerationRequest& request : asked_) copies.push_back(copy_of(request));
  return copies;
}

bool ScriptedGenerator::has_work() const {
  if (frozen_) return false;
  return std::any_of(texts_.begin(), texts_.end(), [this](const Text& text) {
    const bool cancelled = std::any_of(text.choices.begin(), text.choices.end(),
                                       [](const Choice& choice) { return choice.cancelled; });
    if (cancelled || !failure_.empty() || text.request.deadline.has_value()) return true;
    if (halt_ == Halt::kQueued) return text.begun;
    if (halt_ == Halt::kPrefill) return !text.begun || text.computed;
    return halt_ == Halt::kNowhere || text.choices.front().written.empty();
  });
}

void ScriptedGenerator::run() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (!has_work()) {
      changed_.wait_for(lock, std::chrono::milliseconds(20));
      continue;
    }
    News news;
    step(news);
    lock.unlock();
    for (const auto& tell : news) tell();
    news.clear();
    if (options_.step.count() > 0) std::this_thread::sleep_for(options_.step);
    lock.lock();
    changed_.notify_all();
  }
}

void ScriptedGenerator::step(News& news) {
  ++totals_.frames_total;
  seen_ = Clock::now();
  begin_texts();
  for (Text& text : texts_) advance(text, news);
  forget_ended(news);
}

void ScriptedGenerator::begin_texts() {
  if (halt_ == Halt::kQueued) return;
  int64_t running = 0;
  for (const Text& text : texts_) running += text.begun ? text.places() : 0;
  for (Text& text : texts_) {
    if (text.begun || running + text.places() > options_.most_running) continue;
    text.begun = true;
    running += text.places();
    totals_.prompt_tokens_total += text.request.prompt.size();
  }
}

void ScriptedGenerator::advance(Text& text, News& news) {
  const bool late = text.request.deadline.has_value() && Clock::now() >= *text.request.deadline;
  for (int i = 0; i < text.request.choices; ++i) {
    const Choice& choice = text.choices[static_cast<size_t>(i)];
    if (!failure_.empty()) {
      finish(text, i, FinishReason::kFailed, failure_, news);
    } else if (choice.cancelled) {
      finish(text, i, FinishReason::kCancelled, "", news);
    } else if (late) {
      finish(text, i, FinishReason::kDeadline, "", news);
    }
  }
  if (!text.begun || halt_ == Halt::kPrefill) return;
  if (!std::exchange(text.computed, true) && text.request.prompt_logprobs) {
    std::vector<SampledToken> logprobs;
    for (size_t i = 1; i < text.request.prompt.size(); ++i) {
      logprobs.push_back(sampled(text.request, text.request.prompt[i], options_.vocab));
    }
    news.push_back([to = text.listener, logprobs] { to->on_prompt(logprobs); });
  }
  for (int i = 0; i < text.request.choices; ++i) {
    const Choice& choice = text.choices[static_cast<size_t>(i)];
    if (choice.finished || (halt_ == Halt::kDecode && !choice.written.empty())) continue;
    write(text, i, news);
  }
}

int32_t ScriptedGenerator::next_token(const Text& text, Choice& choice) const {
  if (choice.grammar != nullptr) {
    std::vector<uint32_t> bits(static_cast<size_t>((options_.vocab + 31) / 32));
    choice.grammar->allow(bits);
    const auto is_allowed = [&](int32_t token) {
      return ((bits[static_cast<size_t>(token / 32)] >> (token % 32)) & 1) != 0;
    };
    for (const int32_t end : text.request.end_tokens) {
      if (is_allowed(end)) return end;
    }
    for (int32_t token = '!'; token < options_.vocab; ++token) {
      if (is_allowed(token)) return token;
    }
    return 0;
  }
  const size_t at = choice.written.size();
  return at < choice.script.size() ? choice.script[at] : -1;
}

void ScriptedGenerator::write(Text& text, int number, News& news) {
  Choice& choice = text.choices[static_cast<size_t>(number)];
  const int32_t token = next_token(text, choice);
  const auto& ends = text.request.end_tokens;
  if (token < 0 || std::find(ends.begin(), ends.end(), token) != ends.end()) {
    return finish(text, number, FinishReason::kStop, "", news);
  }
  if (choice.grammar != nullptr) choice.grammar->accept(token);
  choice.written.push_back(token);
  ++totals_.answer_tokens_total;
  news.push_back([to = text.listener, number, one = sampled(text.request, token, options_.vocab)] {
    to->on_token(number, one);
  });
  if (std::ssize(choice.written) == text.request.max_tokens) {
    finish(text, number, FinishReason::kLength, "", news);
  }
}

void ScriptedGenerator::finish(Text& text, int number, FinishReason reason, const std::string& why,
                               News& news) {
  Choice& choice = text.choices[static_cast<size_t>(number)];
  if (std::exchange(choice.finished, true)) return;
  if (reason == FinishReason::kCancelled) ++totals_.cancelled_total;
  if (reason == FinishReason::kFailed) ++totals_.failed_total;
  news.push_back([to = text.listener, number, reason, why] { to->on_finish(number, reason, why); });
}

void ScriptedGenerator::forget_ended(News& news) {
  for (const Text& text : texts_) {
    if (!text.ended()) continue;
    GenerationUsage usage{.prompt_tokens = std::ssize(text.request.prompt)};
    for (const Choice& choice : text.choices) usage.answer_tokens += std::ssize(choice.written);
    ++totals_.finished_total;
    news.push_back([to = text.listener, usage] { to->on_end(usage); });
  }
  std::erase_if(texts_, [](const Text& text) { return text.ended(); });
}

}  // namespace tessera::serve::testing
