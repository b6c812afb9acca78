#include "serve/engine/loop.h"

#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/failure.h"

namespace tessera::serve {

EngineLoop::EngineLoop(FrameRunner& runner, EngineDoor& door, const BatchOptions& batch)
    : runner_(runner),
      door_(door),
      shape_(runner.shape()),
      scheduler_(shape_, batch),
      greedy_(std::make_shared<const Sampling>(Sampling{.temperature = 0})) {}

void EngineLoop::run() {
  try {
    work();
  } catch (const std::exception& error) {
    const Failure failure = failure_of(error);
    end_all(door_.fail(failure), failure.text);
  }
}

void EngineLoop::work() {
  EngineNews news = door_.take();
  while (!news.closing) {
    hear(std::move(news));
    expire();
    start_frames();
    show();
    deliver();
    if (under_way_.empty()) {
      news = door_.wait(scheduler_.next_deadline());
    } else {
      finish_oldest();
      news = door_.take();
    }
  }
  end_all(std::move(news), "the model is being stopped");
}

ActiveRequest* EngineLoop::find(GenerationId id) {
  const auto found = requests_.find(id);
  return found == requests_.end() ? nullptr : found->second.get();
}

void EngineLoop::hear(EngineNews news) {
  for (Newcomer& one : news.newcomers) {
    auto audience =
        std::make_shared<Audience>(Audience{.id = one.id, .listener = std::move(one.listener)});
    auto request = std::make_unique<ActiveRequest>(one.id, std::move(one.request),
                                                   std::move(audience), shape_.vocab);
    if (!is_over_) scheduler_.add(request->to_batch());
    requests_.emplace(one.id, std::move(request));
  }
  for (const Cancellation& one : news.cancellations) {
    ActiveRequest* request = find(one.id);
    if (request == nullptr) continue;
    if (one.choice == Cancellation::kAll) {
      end_request(*request, FinishReason::kCancelled, "");
    } else if (!request->has_ended(one.choice)) {
      end_answer(*request, one.choice, FinishReason::kCancelled, "");
    }
  }
}

void EngineLoop::expire() {
  const auto next = scheduler_.next_deadline();
  if (!next) return;
  const auto now = EngineDoor::Clock::now();
  if (*next > now) return;
  for (const GenerationId id : scheduler_.expired(now)) {
    if (ActiveRequest* request = find(id)) end_request(*request, FinishReason::kDeadline, "");
  }
}

void EngineLoop::start_frames() {
  while (std::ssize(under_way_) < shape_.stages && plan()) {
    const std::vector<bool> has_grammar = fill_rows();
    runner_.start(planned_.frame);
    under_way_.push_back({planned_.frame.number, std::move(planned_.owners)});
    if (planned_.frame.masks_follow) allow_rows(under_way_.back(), has_grammar);
  }
}

// False: there is nothing to compute before the frames under way are done, or somebody comes.
bool EngineLoop::plan() {
  if (scheduler_.is_idle()) return false;
  bool planned = scheduler_.plan(planned_);
  if (!planned && under_way_.empty()) {
    // What gave up its pages just now may begin with them.
    planned = scheduler_.plan(planned_);
    TESSERA_CHECK(planned, "{} requests are there, and no frame can be made of them",
                  requests_.size());
  }
  if (!planned) return false;
  for (const GenerationId id : planned_.requests) {
    ActiveRequest* request = find(id);
    if (request == nullptr || request->begun) continue;
    request->begun = true;
    request->usage.cached_tokens = scheduler_.cached_tokens(id);
    totals_.prompt_tokens_total += static_cast<uint64_t>(request->usage.prompt_tokens);
    door_.begun(id);
  }
  return true;
}

// By row: whether a grammar has something to say.
std::vector<bool> EngineLoop::fill_rows() {
  std::vector<bool> has_grammar(planned_.owners.size(), false);
  planned_.frame.masks_follow = false;
  for (size_t i = 0; i < planned_.owners.size(); ++i) {
    const RowOwner& owner = planned_.owners[i];
    RowSampling& row = planned_.frame.rows[i].sampling;
    row.how = greedy_;
    ActiveRequest* request = find(owner.id);
    if (request == nullptr) continue;
    if (owner.prompt_token != RowOwner::kAnswer) {
      request->sample_prompt(owner.prompt_token, row);
    } else {
      has_grammar[i] = request->sample_answer(owner.choice, row);
      planned_.frame.masks_follow = planned_.frame.masks_follow || has_grammar[i];
    }
  }
  return has_grammar;
}

// While the ranks compute the frame: only the choice of its tokens waits for masks. What a request
// that ends here has in the frame is nobody's.
void EngineLoop::allow_rows(const UnderWay& frame, const std::vector<bool>& has_grammar) {
  FrameMasks masks{.number = frame.number, .rows = {}};
  masks.rows.resize(frame.owners.size());
  for (size_t i = 0; i < frame.owners.size(); ++i) {
    const RowOwner& owner = frame.owners[i];
    ActiveRequest* request = has_grammar[i] ? find(owner.id) : nullptr;
    if (request == nullptr || request->has_ended(owner.choice)) continue;
    try {
      if (request->allow_answer(owner.choice, masks.rows[i])) continue;
      masks.rows[i].clear();
      end_answer(*request, owner.choice, FinishReason::kStop, "");
    } catch (const std::exception& error) {
      masks.rows[i].clear();
      fail_request(*request, failure_of(error).text);
    }
  }
  runner_.allow(std::move(masks));
}

void EngineLoop::finish_oldest() {
  FrameResult result = runner_.finish();
  const UnderWay frame = std::move(under_way_.front());
  under_way_.pop_front();
  TESSERA_CHECK(result.number == frame.number && result.tokens.size() == frame.owners.size(),
                "{} tokens of frame {} came, {} of frame {} were asked for", result.tokens.size(),
                result.number, frame.owners.size(), frame.number);
  ++totals_.frames_total;
  for (size_t i = 0; i < frame.owners.size(); ++i) {
    take_row(frame.owners[i], std::move(result.tokens[i]));
  }
}

void EngineLoop::take_row(const RowOwner& owner, SampledToken token) {
  ActiveRequest* request = find(owner.id);
  if (request == nullptr || request->has_ended(owner.choice)) return;
  if (!token.finite) {
    return fail_request(*request,
                        "the model's logits are NaN or Inf: its weights are damaged, or numbers "
                        "grew beyond what the dtype holds; serve it in f32");
  }
  if (owner.prompt_token != RowOwner::kAnswer) {
    request->prompt_logprobs.push_back(std::move(token));
    return;
  }
  try {
    take_answer(*request, owner.choice, std::move(token));
  } catch (const Error& error) {
    fail_request(*request, error.what());
  }
}

void EngineLoop::take_answer(ActiveRequest& request, int choice, SampledToken token) {
  tell_prompt(request);
  if (request.max_tokens() == 0) return end_answer(request, choice, FinishReason::kLength, "");
  if (request.ends(token.token)) return end_answer(request, choice, FinishReason::kStop, "");
  scheduler_.append(request.id(), choice, token.token);
  const bool is_last = request.add(choice, token.token);
  ++totals_.answer_tokens_total;
  deliveries_.token(request.audience(), choice, std::move(token));
  if (is_last) end_answer(request, choice, FinishReason::kLength, "");
}

// Once, before the first token of any answer.
void EngineLoop::tell_prompt(ActiveRequest& request) {
  if (!request.wants_prompt() || std::exchange(request.prompt_told, true)) return;
  deliveries_.prompt(request.audience(), std::move(request.prompt_logprobs));
}

void EngineLoop::end_answer(ActiveRequest& request, int choice, FinishReason reason,
                            const std::string& why) {
  if (!is_over_) scheduler_.end(request.id(), choice);
  switch (reason) {
    case FinishReason::kStop:
    case FinishReason::kLength:
      ++totals_.finished_total;
      break;
    case FinishReason::kCancelled:
    case FinishReason::kDeadline:
      ++totals_.cancelled_total;
      break;
    case FinishReason::kFailed:
      ++totals_.failed_total;
      break;
  }
  deliveries_.finish(request.audience(), choice, reason, why);
  if (!request.end(choice)) return;
  deliveries_.end(request.audience(), request.usage);
  requests_.erase(request.id());
}

void EngineLoop::end_request(ActiveRequest& request, FinishReason reason, const std::string& why) {
  const GenerationId id = request.id();
  const int choices = request.choices();
  for (int choice = 0; choice < choices; ++choice) {
    ActiveRequest* left = find(id);
    if (left != nullptr && !left->has_ended(choice)) end_answer(*left, choice, reason, why);
  }
}

// What it computed may be wrong: nobody shall find it.
void EngineLoop::fail_request(ActiveRequest& request, const std::string& why) {
  scheduler_.forget_pages(request.id());
  end_request(request, FinishReason::kFailed, why);
}

void EngineLoop::show() {
  const BatchStats batch = scheduler_.stats();
  GeneratorStats stats = totals_;
  stats.pages = batch.pages;
  if (!is_over_) {
    stats.running = batch.running;
    stats.waiting = batch.waiting;
    stats.pages_used = batch.pages_used;
    stats.pages_cached = batch.pages_cached;
  }
  stats.prefix_hit_tokens_total = batch.prefix_hit_tokens;
  stats.prefix_asked_tokens_total = batch.prefix_asked_tokens;
  stats.recomputed_tokens_total = batch.recomputed_tokens;
  stats.preemptions_total = batch.preemptions;
  door_.show(stats);
}

void EngineLoop::deliver() {
  deliveries_.deliver([this](GenerationId id) { door_.ended(id); },
                      [this](GenerationId id) { door_.cancel({.id = id}); });
}

// With the door failed or closed: those that nobody has looked at end too. The scheduler is left
// alone: it may be what failed.
void EngineLoop::end_all(EngineNews news, const std::string& why) {
  is_over_ = true;
  news.cancellations.clear();
  hear(std::move(news));
  while (!requests_.empty()) {
    end_request(*requests_.begin()->second, FinishReason::kFailed, why);
  }
  show();
  deliver();
}

}  // namespace tessera::serve
