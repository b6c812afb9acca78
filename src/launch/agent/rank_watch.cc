#include "launch/agent/rank_watch.h"

#include <algorithm>

namespace tessera {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kShortestTick{10};
constexpr milliseconds kLongestTick{500};
constexpr size_t kVisitsKept = 256;
constexpr int kSlack = 4;  // times the usual visit
// Whoever looks was stopped itself (^Z), or has had no core: what it has missed proves nothing.
constexpr milliseconds kMissed{2'000};

milliseconds between(RankWatch::Time from, RankWatch::Time to) {
  return std::chrono::duration_cast<milliseconds>(to - from);
}

}  // namespace

milliseconds WatchBounds::tick() const {
  return std::clamp(std::min({stopped_after, stopped_grace, hung_after}) / 8, kShortestTick,
                    kLongestTick);
}

RankWatch::RankWatch(int ranks, const WatchBounds& bounds)
    : bounds_(bounds), seen_(static_cast<size_t>(ranks)) {}

void RankWatch::forget(Time now) {
  for (Seen& rank : seen_) {
    if (rank.stopped_since) rank.stopped_since = now;
    rank.came_further = rank.entered = rank.waited_last = now;
  }
}

std::vector<WatchFinding> RankWatch::look(Time now, std::span<const RankSight> ranks) {
  std::vector<WatchFinding> found;
  if (done_) return found;
  if (!looked_ || between(*looked_, now) > bounds_.tick() + kMissed) forget(now);
  looked_ = now;
  note_progress(now, ranks);
  look_for_stopped(now, ranks, found);
  if (!done_) look_for_hung(now, ranks, found);
  return found;
}

void RankWatch::note_progress(Time now, std::span<const RankSight> ranks) {
  for (size_t i = 0; i < ranks.size(); ++i) {
    const RankProgress& is = ranks[i].progress;
    Seen& was = seen_[i];
    if (is.section != was.progress.section || is.step != was.progress.step) {
      auto& visits = visits_[static_cast<size_t>(was.progress.section)];
      if (visits.size() >= kVisitsKept) visits.erase(visits.begin());
      visits.push_back(between(was.entered, now));
      was.entered = now;
    }
    if (is.beats != was.progress.beats || is.calls != was.progress.calls) was.came_further = now;
    if (is.waits_for >= 0) {
      was.waited_last = now;
      was.waited_for = is.waits_for;
    }
    was.progress = is;
  }
}

void RankWatch::look_for_stopped(Time now, std::span<const RankSight> ranks,
                                 std::vector<WatchFinding>& found) {
  const bool all = std::all_of(ranks.begin(), ranks.end(),
                               [](const RankSight& rank) { return rank.stopped || !rank.running; });
  for (size_t i = 0; i < ranks.size(); ++i) {
    Seen& seen = seen_[i];
    const int rank = static_cast<int>(i);
    if (!ranks[i].stopped || all) {
      if (seen.said) {
        found.push_back({WatchFinding::Kind::kGoesOn, rank, between(*seen.stopped_since, now)});
      }
      seen.said = false;
      seen.stopped_since.reset();
      continue;
    }
    if (!seen.stopped_since) seen.stopped_since = now;
    const milliseconds time = between(*seen.stopped_since, now);
    if (!seen.said && time >= bounds_.stopped_after) {
      seen.said = true;
      found.push_back({WatchFinding::Kind::kStopped, rank, time});
    }
    if (time >= bounds_.stopped_after + bounds_.stopped_grace) {
      found.push_back({WatchFinding::Kind::kStoppedTooLong, rank, time});
      done_ = true;
      return;
    }
  }
}

milliseconds RankWatch::bound_of(const RankProgress& progress) const {
  const auto section = static_cast<uint32_t>(progress.section);
  if ((progress.left >> section & 1U) == 0) return kFirstVisit * bounds_.hung_after;
  std::vector<milliseconds> visits = visits_[section];
  if (visits.empty()) return bounds_.hung_after;  // all were over between two looks
  const size_t most = visits.size() * 99 / 100;
  std::nth_element(visits.begin(), visits.begin() + static_cast<std::ptrdiff_t>(most),
                   visits.end());
  return std::max(bounds_.hung_after, kSlack * visits[most]);
}

void RankWatch::look_for_hung(Time now, std::span<const RankSight> ranks,
                              std::vector<WatchFinding>& found) {
  Time last = {};
  milliseconds bound{0};
  bool any = false;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (!ranks[i].running) continue;
    if (ranks[i].stopped) return;  // that explains it
    any = true;
    last = std::max(last, seen_[i].came_further);
    bound = std::max(bound, bound_of(ranks[i].progress));
  }
  if (!any || between(last, now) < bound) return;
  found.push_back({WatchFinding::Kind::kHung, culprit(ranks), between(last, now)});
  done_ = true;
}

// The one that has not waited for anybody for longest; where all wait, the one that most wait for.
int RankWatch::culprit(std::span<const RankSight> ranks) const {
  std::optional<size_t> named;
  std::vector<int> waited_for(ranks.size());
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (!ranks[i].running) continue;
    if (ranks[i].progress.waits_for >= 0) {
      ++waited_for[static_cast<size_t>(ranks[i].progress.waits_for)];
      continue;
    }
    if (!named || seen_[i].waited_last < seen_[*named].waited_last) named = i;
  }
  if (named) return static_cast<int>(*named);
  return static_cast<int>(std::max_element(waited_for.begin(), waited_for.end()) -
                          waited_for.begin());
}

}  // namespace tessera
