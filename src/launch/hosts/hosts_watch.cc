#include "launch/hosts/hosts_watch.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace tessera {

HostsWatch::HostsWatch(int generation, int places, int ranks_per_host, const WatchBounds& bounds)
    : generation_(generation),
      ranks_per_host_(ranks_per_host),
      watch_(places * ranks_per_host, bounds),
      ranks_(static_cast<size_t>(places * ranks_per_host)),
      pids_(ranks_.size()),
      heard_(static_cast<size_t>(places)),
      whereabouts_(static_cast<size_t>(places)) {}

void HostsWatch::hear(int place, const HostSight& sight) {
  require(sight.ranks.size() == static_cast<size_t>(ranks_per_host_), "a sight of {} ranks, not {}",
          sight.ranks.size(), ranks_per_host_);
  const auto first = static_cast<std::ptrdiff_t>(place) * ranks_per_host_;
  for (const RankSight& rank : sight.ranks) {
    require(rank.progress.waits_for < static_cast<int>(ranks_.size()),
            "a rank that waits for rank {} of {}", rank.progress.waits_for, ranks_.size());
  }
  std::copy(sight.ranks.begin(), sight.ranks.end(), ranks_.begin() + first);
  std::copy(sight.pids.begin(), sight.pids.end(), pids_.begin() + first);
  if (place == 0) run_ = sight.run;
  heard_[static_cast<size_t>(place)] = true;
}

void HostsWatch::hear(int place, HostWhereabouts whereabouts) {
  const auto ranks = static_cast<size_t>(ranks_per_host_);
  require(whereabouts.ranks.size() == ranks && whereabouts.at.size() == ranks,
          "the whereabouts of {} ranks, not {}", whereabouts.ranks.size(), ranks);
  whereabouts_[static_cast<size_t>(place)] = std::move(whereabouts);
}

HostsWatch::Findings HostsWatch::look(Time now) {
  Findings found;
  if (hung_) {
    const bool all = std::all_of(whereabouts_.begin(), whereabouts_.end(),
                                 [](const auto& one) { return one.has_value(); });
    if (all || now >= hung_->since + kAnswerWait) tell_hung(found);
    return found;
  }
  if (std::count(heard_.begin(), heard_.end(), false) > 0) return found;
  std::fill(heard_.begin(), heard_.end(), false);
  for (const WatchFinding& finding : watch_.look(now, ranks_)) take(finding, now, found);
  return found;
}

RankTrouble HostsWatch::trouble_of(const WatchFinding& finding) const {
  const auto rank = static_cast<size_t>(finding.rank);
  const bool hung = finding.kind == WatchFinding::Kind::kHung;
  return {.verdict = hung ? Verdict::kHung : Verdict::kStopped,
          .generation = generation_,
          .rank = finding.rank,
          .pid = pids_[rank],
          .seconds = std::chrono::duration<double>(finding.time).count(),
          .section = ranks_[rank].progress.section,
          .step = ranks_[rank].progress.step,
          .over = finding.kind == WatchFinding::Kind::kGoesOn};
}

void HostsWatch::take(const WatchFinding& finding, Time now, Findings& found) {
  switch (finding.kind) {
    case WatchFinding::Kind::kStopped:
    case WatchFinding::Kind::kGoesOn:
      found.troubles.push_back(trouble_of(finding));
      return;
    case WatchFinding::Kind::kStoppedTooLong:
      return order_kill(trouble_of(finding), found);
    case WatchFinding::Kind::kHung:
      hung_ = {finding, now};
      for (size_t place = 0; place < heard_.size(); ++place) {
        found.orders.push_back({static_cast<int>(place), {.kind = RankCommand::Kind::kSayWhere}});
      }
      return;
  }
}

void HostsWatch::order_kill(const RankTrouble& trouble, Findings& found) const {
  found.orders.push_back({trouble.rank / ranks_per_host_,
                          {.kind = RankCommand::Kind::kKill,
                           .rank = trouble.rank,
                           .verdict = trouble.verdict,
                           .seconds = trouble.seconds}});
}

void HostsWatch::tell_hung(Findings& found) {
  RankTrouble trouble = trouble_of(hung_->finding);
  const int place_of_rank = trouble.rank / ranks_per_host_;
  for (size_t place = 0; place < whereabouts_.size(); ++place) {
    const std::optional<HostWhereabouts>& told = whereabouts_[place];
    const int first = static_cast<int>(place) * ranks_per_host_;
    for (int i = 0; i < ranks_per_host_; ++i) {
      trouble.ranks.push_back(told ? told->ranks[static_cast<size_t>(i)]
                                   : fmt::format("rank {}: its host has not said", first + i));
    }
    trouble.stacks += told ? told->stacks
                           : fmt::format("ranks {} to {}: their host has not said\n", first,
                                         first + ranks_per_host_ - 1);
    if (told && static_cast<int>(place) == place_of_rank) {
      trouble.at = told->at[static_cast<size_t>(trouble.rank - first)];
    }
  }
  order_kill(trouble, found);
  found.troubles.push_back(std::move(trouble));
  hung_.reset();
}

}  // namespace tessera
