#include "serve/engine/door.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace tessera::serve {
namespace {

using std::chrono::milliseconds;

// An engine without work comes round as often.
constexpr milliseconds kRound{250};

}  // namespace

EngineDoor::EngineDoor(const ServeShape& shape, const BatchOptions& batch, int64_t most_waiting)
    : shape_(shape),
      batch_(batch),
      most_waiting_(most_waiting),
      alive_(Clock::now().time_since_epoch().count()) {
  batch.check(shape);
  require_config(most_waiting > 0, "{} requests may wait: it must be 1 at least", most_waiting);
  shown_.pages = shape.num_pages;
}

// Empty: it can be computed. What ranks would stumble over must not reach them.
std::string EngineDoor::why_not(const GenerationRequest& request) const {
  if (request.prompt.empty()) return "the prompt has no tokens: give one at least";
  if (request.choices < 1 || request.max_tokens < 0) {
    return fmt::format("{} answers of {} tokens: ask for one answer at least, and 0 tokens or more",
                       request.choices, request.max_tokens);
  }
  const auto is_known = [&](int32_t token) { return token >= 0 && token < shape_.vocab; };
  for (const int32_t token : request.prompt) {
    if (is_known(token)) continue;
    return fmt::format("the prompt has the token {}; the model knows 0 to {}", token,
                       shape_.vocab - 1);
  }
  for (const auto& [token, bias] : request.sampling.logit_bias) {
    if (is_known(token) && std::isfinite(bias)) continue;
    return fmt::format(
        "logit_bias has {} for the token {}; it must be finite, and the model knows 0 to {}", bias,
        token, shape_.vocab - 1);
  }
  const Sampling& how = request.sampling;
  for (const double value : {how.temperature, how.top_p, how.min_p, how.presence_penalty,
                             how.frequency_penalty, how.repetition_penalty}) {
    if (!std::isfinite(value)) return "temperature, top_p, min_p and penalties must be finite";
  }
  return why_too_long(std::ssize(request.prompt), request.max_tokens, request.choices, shape_,
                      batch_);
}

Submission EngineDoor::submit(GenerationRequest request,
                              std::shared_ptr<GenerationListener> listener) {
  TESSERA_CHECK(listener != nullptr, "a request without a listener");
  std::string why = why_not(request);
  const std::scoped_lock lock(mutex_);
  if (failure_) return {.refused = Refused::kDead, .why = failure_->text};
  if (draining_ || news_.closing) {
    return {.refused = Refused::kDraining, .why = "the server is shutting down"};
  }
  if (!why.empty()) return {.refused = Refused::kTooLong, .why = std::move(why)};
  if (waiting_ >= most_waiting_) {
    return {
        .refused = Refused::kQueueFull,
        .why = fmt::format("{} requests are waiting, which is all that may: try later", waiting_)};
  }
  const GenerationId id = next_id_++;
  live_.emplace(id, Live{.choices = request.choices});
  ++waiting_;
  news_.newcomers.push_back({id, std::move(request), std::move(listener)});
  came_.notify_one();
  return {.id = id, .why = ""};
}

void EngineDoor::cancel(const Cancellation& cancellation) {
  const std::scoped_lock lock(mutex_);
  const auto live = live_.find(cancellation.id);
  if (live == live_.end() || cancellation.choice >= live->second.choices) return;
  if (!cancelled_.emplace(cancellation.id, cancellation.choice).second) return;
  news_.cancellations.push_back(cancellation);
  came_.notify_one();
}

GeneratorStats EngineDoor::stats() const {
  const std::scoped_lock lock(mutex_);
  GeneratorStats stats = shown_;
  stats.waiting += std::ssize(news_.newcomers);
  return stats;
}

std::optional<Failure> EngineDoor::failure() const {
  const std::scoped_lock lock(mutex_);
  return failure_;
}

EngineDoor::Clock::time_point EngineDoor::last_seen_alive() const {
  return Clock::time_point(Clock::duration(alive_.load()));
}

bool EngineDoor::drain(milliseconds longest) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  return left_.wait_for(lock, longest, [&] { return live_.empty(); });
}

void EngineDoor::close() {
  const std::scoped_lock lock(mutex_);
  news_.closing = true;
  came_.notify_one();
}

EngineNews EngineDoor::take_held() {
  EngineNews news = std::exchange(news_, {});
  news_.closing = news.closing;
  cancelled_.clear();
  // Until the engine shows what it made of them.
  shown_.waiting += std::ssize(news.newcomers);
  return news;
}

EngineNews EngineDoor::take() {
  come_round();
  const std::scoped_lock lock(mutex_);
  return take_held();
}

EngineNews EngineDoor::wait(std::optional<Clock::time_point> until) {
  come_round();
  std::unique_lock lock(mutex_);
  const Clock::time_point round = Clock::now() + kRound;
  came_.wait_until(lock, until ? std::min(*until, round) : round, [&] {
    return news_.closing || !news_.newcomers.empty() || !news_.cancellations.empty();
  });
  return take_held();
}

void EngineDoor::begun(GenerationId id) {
  const std::scoped_lock lock(mutex_);
  const auto live = live_.find(id);
  if (live == live_.end() || !live->second.waits) return;
  live->second.waits = false;
  --waiting_;
}

void EngineDoor::ended(GenerationId id) {
  const std::scoped_lock lock(mutex_);
  const auto live = live_.find(id);
  if (live == live_.end()) return;
  if (live->second.waits) --waiting_;
  live_.erase(live);
  if (live_.empty()) left_.notify_all();
}

void EngineDoor::show(const GeneratorStats& stats) {
  const std::scoped_lock lock(mutex_);
  shown_ = stats;
}

void EngineDoor::come_round() { alive_ = Clock::now().time_since_epoch().count(); }

EngineNews EngineDoor::fail(const Failure& failure) {
  const std::scoped_lock lock(mutex_);
  failure_ = failure;
  return take_held();
}

}  // namespace tessera::serve
