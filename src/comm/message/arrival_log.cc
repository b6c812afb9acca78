#include "comm/message/arrival_log.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace tessera::message {
namespace {

double quantile(const std::array<int64_t, 64>& buckets, double fraction) {
  const int64_t total = std::accumulate(buckets.begin(), buckets.end(), int64_t{0});
  int64_t seen = 0;
  for (size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    seen += buckets[bucket];
    if (seen > 0 && static_cast<double>(seen) >= fraction * static_cast<double>(total)) {
      return bucket == 0 ? 0 : std::ldexp(1.0, static_cast<int>(bucket));
    }
  }
  return 0;
}

}  // namespace

void ArrivalLog::record(std::span<const int64_t> arrived_at_us) {
  int64_t first = INT64_MAX;
  for (const int64_t at : arrived_at_us) {
    if (at != kUnknown) first = std::min(first, at);
  }
  const auto last = std::max_element(arrived_at_us.begin(), arrived_at_us.end());
  ++ranks_[static_cast<size_t>(last - arrived_at_us.begin())].times_last;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (arrived_at_us[rank] == kUnknown) continue;
    const auto late = static_cast<uint64_t>(arrived_at_us[rank] - first);
    ++ranks_[rank].by_log2_us[static_cast<size_t>(std::bit_width(late)) % 64];
  }
}

std::vector<Arrival> ArrivalLog::summary(std::span<const int> world_ranks) const {
  std::vector<Arrival> list;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    const Rank& seen = ranks_[rank];
    list.push_back({world_ranks[rank], seen.times_last, quantile(seen.by_log2_us, 0.5),
                    quantile(seen.by_log2_us, 0.99)});
  }
  return list;
}

}  // namespace tessera::message
