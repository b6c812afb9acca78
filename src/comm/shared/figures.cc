// What a communicator keeps of its calls: a record for whoever asks after a crash, who came late,
// and the bytes that moved.
#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "comm/shared/endpoint.h"
#include "comm/shared/shared_communicator.h"

namespace tessera::shared {

void SharedCommunicator::record(const CollectiveCall& call, uint64_t sequence) {
  RankBlock& block = domain_.block().rank[endpoint_.rank()];
  const uint64_t made = block.num_records.fetch_add(1, std::memory_order_release);
  CallRecord& record = block.records[made % kRecords];
  constexpr auto kRelaxed = std::memory_order_relaxed;
  record.sequence.store(sequence, kRelaxed);
  record.count.store(static_cast<uint64_t>(call.count), kRelaxed);
  record.ticks.store(__rdtsc(), kRelaxed);
  record.kind.store(static_cast<uint64_t>(group_.index) | static_cast<uint64_t>(call.op) << 16 |
                        static_cast<uint64_t>(call.reduce) << 32 |
                        static_cast<uint64_t>(call.dtype) << 48,
                    kRelaxed);
  record.detail.store(static_cast<uint32_t>(call.root) | static_cast<uint64_t>(call.tag) << 32,
                      kRelaxed);
}

void SharedCommunicator::note_lateness(const Op& op) {
  if (size() == 1) return;
  uint64_t first = group_.view.call(rank(), op.sequence).arrival_ticks;
  uint64_t last = first;
  int latest = rank();
  for (int peer = 0; peer < size(); ++peer) {
    if (!awaits(op, peer)) continue;
    const uint64_t ticks = group_.view.call(peer, op.sequence).arrival_ticks;
    first = std::min(first, ticks);
    if (ticks > last) {
      last = ticks;
      latest = peer;
    }
  }
  ++times_last_[static_cast<size_t>(latest)];
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank() && !awaits(op, peer)) continue;
    const uint64_t late = group_.view.call(peer, op.sequence).arrival_ticks - first;
    ++lateness_[static_cast<size_t>(peer)][static_cast<size_t>(std::bit_width(late | 1) - 1)];
  }
}

std::vector<Arrival> SharedCommunicator::arrivals() const {
  const double us =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - first_time_)
          .count();
  const double ticks_per_us = std::max(1.0, static_cast<double>(__rdtsc() - first_ticks_) / us);
  std::vector<Arrival> list;
  for (int peer = 0; peer < size(); ++peer) {
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
    list.push_back(
        {world_rank(peer), times_last_[static_cast<size_t>(peer)], quantile(0.5), quantile(0.99)});
  }
  return list;
}

TrafficCounters SharedCommunicator::counters() const {
  TrafficCounters counters;
  for (size_t i = 0; i < counters.size(); ++i) {
    counters[i].calls = calls_[i];
    for (int reader = 0; reader < size(); ++reader) {
      counters[i].bytes_sent += group_.view.traffic(reader, rank(), static_cast<CollectiveOp>(i));
    }
  }
  return counters;
}

}  // namespace tessera::shared
