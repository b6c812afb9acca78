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
         const std::vector<PlayedRequest>& requests, const StageSeconds& seconds)
      : shape_(shape),
        requests_(requests),
        seconds_(seconds),
        scheduler_(shape, options),
        free_from_(static_cast<size_t>(shape.stages), 0) {
    played_.first_token.assign(requests.size(), 0);
    played_.end.assign(requests.size(), 0);
  }

  PlayedServing play(int64_t most_frames) {
    while (arrived_ < requests_.size() || !scheduler_.is_idle() || !under_way_.empty()) {
      arrive();
      while (std::ssize(under_way_) < shape_.stages && start_frame()) {
        require_config(std::ssize(played_.frames) <= most_frames,
                       "more than {} frames: use fewer requests, shorter ones, or larger chunks",
                       most_frames);
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

  void arrive() {
    for (; arrived_ < requests_.size() && requests_[arrived_].arrival <= now_; ++arrived_) {
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
    const double takes = seconds_.frame + seconds_.token * static_cast<double>(frame.tokens);
    double ready = now_;
    for (double& free : free_from_) {
      const double begin = std::max(ready, free);
      ready = free = begin + takes;
      frame.stages.emplace_back(begin, ready);
    }
    under_way_.push_back({ready, std::move(planned.owners)});
    played_.frames.push_back(std::move(frame));
    return true;
  }

  // Until the oldest frame is done, or somebody comes for whom a frame could begin.
  void wait() {
    const bool has_room = std::ssize(under_way_) < shape_.stages;
    const bool comes = arrived_ < requests_.size();
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
    if (written == 1) played_.first_token[request] = now_;
    if (written < requests_[request].answer_tokens) return;
    scheduler_.end(owner.id, owner.choice);
    played_.end[request] = now_;
  }

  ServeShape shape_;
  const std::vector<PlayedRequest>& requests_;
  StageSeconds seconds_;
  Scheduler scheduler_;
  std::vector<double> free_from_;  // by stage
  std::deque<UnderWay> under_way_;
  size_t arrived_ = 0;
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
                           const std::vector<PlayedRequest>& requests, const StageSeconds& seconds,
                           int64_t most_frames) {
  for (const PlayedRequest& request : requests) {
    const std::string why =
        why_too_long(request.prompt_tokens, request.answer_tokens, 1, shape, options);
    require_config(why.empty(), "{}", why);
  }
  return Player(shape, options, requests, seconds).play(most_frames);
}

}  // namespace tessera::serve
