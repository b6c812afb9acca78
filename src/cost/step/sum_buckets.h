// In how many collectives the gradients of a layer are added up, or its weights gathered: an engine
// that closes buckets as soon as they have so many bytes pays latency for each.
#pragma once

#include <cstdint>

#include "cost/step/strategy.h"

namespace tessera {

// 0 where the engine has no buckets: all parameters of a rank go in one.
struct SumBuckets {
  int64_t dense = 0;    // of matrices
  int64_t experts = 0;  // of the matrices of experts
  int64_t small = 0;    // of norms, biases and routers: next to no bytes
};

// The time of the collectives that carry `bytes` in `large` buckets, and of `small` ones, where one
// of so many bytes takes `seconds(bytes)`.
template <typename Seconds>
double in_buckets_s(int64_t large, int64_t small, double bytes, const Seconds& seconds) {
  constexpr double kSmallBytes = 1 << 16;
  const auto count = static_cast<double>(large > 0 ? large : 1);
  return count * seconds(bytes / count) +
         (small > 0 ? static_cast<double>(small) * seconds(kSmallBytes) : 0);
}

SumBuckets buckets_of_layer(const Workload& workload, const Strategy& strategy, bool experts);
SumBuckets buckets_of_embedding(const Workload& workload);
SumBuckets buckets_of_head(const Workload& workload);

}  // namespace tessera
