#include "comm/shared/figures.h"

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "comm/shared/endpoint.h"

namespace tessera::shared {

Figures::Figures(const GroupSite& site)
    : site_(site),
      lateness_(site.members.size()),
      times_last_(site.members.size()),
      first_ticks_(__rdtsc()),
      first_time_(std::chrono::steady_clock::now()) {}

void Figures::record(const CollectiveCall& call, uint64_t sequence) {
  ++calls_[static_cast<size_t>(call.op)];
  note_call(site_.domain.block().rank[site_.endpoint.rank()], site_.group.index, call, sequence);
}

void Figures::note_lateness(const PendingCall& pending) {
  if (site_.size() == 1) return;
  uint64_t first = site_.view().call(site_.rank(), pending.sequence).arrival_ticks;
  uint64_t last = first;
  int latest = site_.rank();
  for (int peer = 0; peer < site_.size(); ++peer) {
    if (!awaits(pending, site_.rank(), peer)) continue;
    const uint64_t ticks = site_.view().call(peer, pending.sequence).arrival_ticks;
    first = std::min(first, ticks);
    if (ticks > last) {
      last = ticks;
      latest = peer;
    }
  }
  ++times_last_[static_cast<size_t>(latest)];
  for (int peer = 0; peer < site_.size(); ++peer) {
    if (peer != site_.rank() && !awaits(pending, site_.rank(), peer)) continue;
    const uint64_t late = site_.view().call(peer, pending.sequence).arrival_ticks - first;
    ++lateness_[static_cast<size_t>(peer)][static_cast<size_t>(std::bit_width(late | 1) - 1)];
  }
}

std::vector<Arrival> Figures::arrivals() const {
  const double us =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - first_time_)
          .count();
  const double ticks_per_us = std::max(1.0, static_cast<double>(__rdtsc() - first_ticks_) / us);
  std::vector<Arrival> list;
  for (int peer = 0; peer < site_.size(); ++peer) {
    const auto& buckets = lateness_[static_cast<size_t>(peer)];
    const int64_t total = std::accumulate(buckets.begin(), buckets.end(), int64_t{0});
    const auto quantile = [&](double q) {
      int64_t seen = 0;
      for (size_t b = 0; b < buckets.size(); ++b) {
        seen += buckets[b];
        if (static_cast<double>(seen) >= q * static_cast<double>(total) && seen > 0) {
          return b == 0 ? 0.0 : std::ldexp(1.0, static_cast<int>(b)) / ticks_per_us;
        }
      }
      return 0.0;
    };
    list.push_back({site_.world_rank(peer), times_last_[static_cast<size_t>(peer)], quantile(0.5),
                    quantile(0.99)});
  }
  return list;
}

TrafficCounters Figures::counters() const {
  TrafficCounters counters;
  for (size_t i = 0; i < counters.size(); ++i) {
    counters[i].calls = calls_[i];
    for (int reader = 0; reader < site_.size(); ++reader) {
      counters[i].bytes_sent +=
          site_.view().traffic(reader, site_.rank(), static_cast<CollectiveOp>(i));
    }
  }
  return counters;
}

}  // namespace tessera::shared
