#include "serve/ranks/frame_watch.h"

#include <algorithm>

#include "base/error.h"

namespace tessera::serve {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kShortestTick{10};
constexpr milliseconds kLongestTick{200};
constexpr int kSlack = 4;  // times the longest stillness so far
// Frames of fewer take about as long: all weights are read for each.
constexpr int64_t kSmallFrame = 64;
// Whoever looks was stopped itself (^Z), or has had no core: what it has missed proves nothing.
constexpr milliseconds kMissed{1'000};

milliseconds between(FrameWatch::Time from, FrameWatch::Time to) {
  return std::chrono::duration_cast<milliseconds>(to - from);
}

// One that waits for nobody and is late; else one that is late.
int culprit(std::span<const RankSight> ranks, uint64_t oldest) {
  int late = 0;
  for (size_t i = ranks.size(); i-- > 0;) {
    if (ranks[i].running && ranks[i].progress.step < step_after_frame(oldest)) {
      late = static_cast<int>(i);
    }
  }
  for (size_t i = 0; i < ranks.size(); ++i) {
    const RankProgress& progress = ranks[i].progress;
    if (ranks[i].running && progress.waits_for < 0 && progress.step < step_after_frame(oldest)) {
      return static_cast<int>(i);
    }
  }
  return late;
}

}  // namespace

milliseconds FrameWatchBounds::tick() const {
  return std::clamp(std::min(stopped_after, hung_after) / 8, kShortestTick, kLongestTick);
}

std::string frame_text(int64_t step) {
  if (step <= 0) return "before its first frame";
  const int64_t number = (step - 1) / 2;
  return fmt::format("{} frame {}", step % 2 == 1 ? "in" : "after", number);
}

std::optional<FrameWatch::Finding> FrameWatch::look(Time now, std::span<const RankSight> ranks,
                                                    const std::optional<FramesUnderWay>& frames) {
  if (done_) return std::nullopt;
  stopped_since_.resize(ranks.size());
  if (looked_ && between(*looked_, now) > bounds_.tick() + kMissed) {
    for (auto& since : stopped_since_) {
      if (since) since = now;
    }
    still_since_.reset();
  }
  looked_ = now;
  std::optional<Finding> found = look_for_stopped(now, ranks);
  note_progress(now, ranks);
  if (!frames) {
    still_since_.reset();  // nothing to do is no stillness
  } else {
    if (!still_since_) still_since_ = now;
    still_tokens_ = std::max(frames->tokens, kSmallFrame);
    if (!found) found = look_for_hung(now, ranks, *frames);
  }
  done_ = found.has_value();
  return found;
}

std::optional<FrameWatch::Finding> FrameWatch::look_for_stopped(Time now,
                                                                std::span<const RankSight> ranks) {
  for (size_t i = 0; i < ranks.size(); ++i) {
    std::optional<Time>& since = stopped_since_[i];
    if (!ranks[i].running || !ranks[i].stopped) {
      since.reset();
      continue;
    }
    if (!since) since = now;
    if (between(*since, now) >= bounds_.stopped_after) {
      return Finding{Verdict::kStopped, static_cast<int>(i), between(*since, now)};
    }
  }
  return std::nullopt;
}

void FrameWatch::note_progress(Time now, std::span<const RankSight> ranks) {
  uint64_t all = 0;
  for (const RankSight& rank : ranks) {
    all += rank.progress.beats + rank.progress.calls;
    computed_ = computed_ || rank.progress.step >= step_after_frame(0);
  }
  if (all == came_so_far_) return;
  came_so_far_ = all;
  if (still_since_) {
    longest_ = std::max(longest_, between(*still_since_, now) * kSmallFrame / still_tokens_);
    still_since_ = now;
  }
}

std::optional<FrameWatch::Finding> FrameWatch::look_for_hung(Time now,
                                                             std::span<const RankSight> ranks,
                                                             const FramesUnderWay& frames) const {
  const bool stopped =
      std::any_of(ranks.begin(), ranks.end(), [](const RankSight& rank) { return rank.stopped; });
  if (stopped) return std::nullopt;  // that explains it
  const milliseconds time = between(*still_since_, now);
  milliseconds bound =
      std::max(bounds_.hung_after, kSlack * longest_ * still_tokens_ / kSmallFrame);
  if (!computed_) bound *= kFirstVisit;
  if (time < bound) return std::nullopt;
  return Finding{Verdict::kHung, culprit(ranks, frames.oldest), time};
}

}  // namespace tessera::serve
