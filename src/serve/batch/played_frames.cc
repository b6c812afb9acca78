#include "serve/batch/played_frames.h"

#include <algorithm>
#include <deque>

#include "base/error.h"
#include "serve/batch/scheduler.h"

namespace tessera::serve {
namespace {

class Player {
 public:
  Player(const ServeShape& shape, const BatchOptions& options,
         const std::vector<PlayedRequest>& requests, const SpanOfFrame& span_of,
         const PlayLimits& limits)
      : shape_(shape),
        requests_(requests),
        span_of_(span_of),
        limits_(limits),
        scheduler_(shape, options),
        free_from_(static_cast<size_t>(shape.stages), 0) {
    played_.arrival.assign(requests.size(), 0);
    played_.first_token.assign(requests.size(), 0);
    last_token_.assign(requests.size(), 0);
    played_.end.assign(requests.size(), 0);
  }

  PlayedServing play() {
    while (arrived_ < requests_.size() || !scheduler_.is_idle() || !under_way_.empty()) {
      arrive();
      while (std::ssize(under_way_) < shape_.stages && start_frame()) {
        require_config(std::ssize(played_.frames) <= limits_.most_frames,
                       "more than {} frames: use fewer requests, shorter ones, or larger chunks",
                       limits_.most_frames);
      }
      wait();
    }
    const BatchStats stats = scheduler_.stats();
    played_.preemptions = stats.preemptions;
    played_.recomputed_tokens = stats.recomputed_tokens;
    for (const PlayedFrame& frame : played_.frames) {
      played_.makespan = std::max(played_.makespan, frame.stages.back().second);
    }
    return std::move(played_);
  }

 private:
  struct UnderWay {
    double end = 0;
    std::vector<RowOwner> owners;
  };

  // Whether the next one may come, once it is its time.
  [[nodiscard]] bool has_room_for_next() const {
    return arrived_ < requests_.size() &&
           (limits_.at_once == 0 || static_cast<int64_t>(arrived_ - ended_) < limits_.at_once);
  }

  void arrive() {
    for (; has_room_for_next() && requests_[arrived_].arrival <= now_; ++arrived_) {
      played_.arrival[arrived_] = limits_.at_once > 0 ? now_ : requests_[arrived_].arrival;
      BatchRequest request;
      request.id = arrived_;
      // What is written there is no matter.
      request.prompt.assign(static_cast<size_t>(requests_[arrived_].prompt_tokens), 0);
      request.max_tokens = requests_[arrived_].answer_tokens;
      scheduler_.add(std::move(request));
    }
  }

  bool start_frame() {
    PlannedFrame planned;
    if (!scheduler_.plan(planned)) return false;
    PlayedFrame frame;
    frame.planned = now_;
    frame.tokens = std::ssize(planned.frame.tokens);
    frame.rows = std::ssize(planned.frame.rows);
    frame.pages_used = scheduler_.stats().pages_used;
    for (size_t i = 0; i < planned.requests.size(); ++i) {
      const FrameSequence& part = planned.frame.sequences[i];
      const auto request = static_cast<size_t>(planned.requests[i]);
      frame.parts.push_back({static_cast<int64_t>(request), part.cached, part.num_tokens,
                             part.cached >= requests_[request].prompt_tokens});
    }
    const FrameSpan span = span_of_(frame);
    double ready = now_;
    for (size_t s = 0; s < free_from_.size(); ++s) {
      const double begin = std::max(ready, free_from_[s]);
      free_from_[s] = begin + span.stages[s];
      frame.stages.emplace_back(begin, free_from_[s]);
      ready = free_from_[s] + span.message;
    }
    ready -= span.message;
    under_way_.push_back({ready, std::move(planned.owners)});
    played_.frames.push_back(std::move(frame));
    return true;
  }

  // Until the oldest frame is done, or somebody comes for whom a frame could begin.
  void wait() {
    const bool has_room = std::ssize(under_way_) < shape_.stages;
    const bool comes = has_room_for_next();
    const double arrival = comes ? requests_[arrived_].arrival : 0;
    if (under_way_.empty()) {
      if (comes) now_ = std::max(now_, arrival);
      return;
    }
    if (comes && has_room && arrival < under_way_.front().end) {
      now_ = std::max(now_, arrival);
      return;
    }
    now_ = under_way_.front().end;
    const std::vector<RowOwner> owners = std::move(under_way_.front().owners);
    under_way_.pop_front();
    for (const RowOwner& owner : owners) take_token(owner);
  }

  void take_token(const RowOwner& owner) {
    const auto request = static_cast<size_t>(owner.id);
    if (!scheduler_.append(owner.id, owner.choice, 0)) return;
    const int64_t length = std::ssize(scheduler_.text(owner.id, owner.choice));
    const int64_t written = length - requests_[request].prompt_tokens;
    if (written == 1) {
      played_.first_token[request] = now_;
    } else {
      played_.gaps.push_back(now_ - last_token_[request]);
    }
    last_token_[request] = now_;
    if (written < requests_[request].answer_tokens) return;
    scheduler_.end(owner.id, owner.choice);
    played_.end[request] = now_;
    ++ended_;
  }

  ServeShape shape_;
  const std::vector<PlayedRequest>& requests_;
  const SpanOfFrame& span_of_;
  PlayLimits limits_;
  Scheduler scheduler_;
  std::vector<double> free_from_;  // by stage
  std::deque<UnderWay> under_way_;
  size_t arrived_ = 0, ended_ = 0;
  std::vector<double> last_token_;  // by request: when it came
  double now_ = 0;
  PlayedServing played_;
};

}  // namespace

double PlayedServing::busy(size_t stage) const {
  double sum = 0;
  for (const PlayedFrame& frame : frames) {
    sum += frame.stages[stage].second - frame.stages[stage].first;
  }
  return sum;
}

PlayedServing play_serving(const ServeShape& shape, const BatchOptions& options,
                           const std::vector<PlayedRequest>& requests, const SpanOfFrame& span_of,
                           const PlayLimits& limits) {
  for (const PlayedRequest& request : requests) {
    const std::string why =
        why_too_long(request.prompt_tokens, request.answer_tokens, 1, shape, options);
    require_config(why.empty(), "{}", why);
  }
  return Player(shape, options, requests, span_of, limits).play();
}

PlayedServing play_serving(const ServeShape& shape, const BatchOptions& options,
                           const std::vector<PlayedRequest>& requests, const StageSeconds& seconds,
                           int64_t most_frames) {
  const auto span_of = [&](const PlayedFrame& frame) {
    const double takes = seconds.frame + seconds.token * static_cast<double>(frame.tokens);
    return FrameSpan{std::vector<double>(static_cast<size_t>(shape.stages), takes), 0};
  };
  return play_serving(shape, options, requests, span_of, {.most_frames = most_frames});
}

}  // namespace tessera::serve
