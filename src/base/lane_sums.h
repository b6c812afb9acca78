// What a step with lanes adds up over all ranks, as f64: the loss of every lane, which its owner
// alone fills in; tokens; the digits of an exact sum of squares. No order of additions changes any
// of these numbers, so that the metrics made of them are the same for every number of ranks.
#pragma once

#include <cstdint>

#include "base/exact_sum.h"
#include "base/step_params.h"
#include "base/tree_shares.h"

namespace tessera {

struct LaneSums {
  static constexpr int64_t tokens(int64_t lanes) { return lanes; }
  static constexpr int64_t squares(int64_t lanes) { return lanes + 1; }
  static constexpr int64_t count(int64_t lanes) { return squares(lanes) + ExactSum::kDigits; }
};

// `metrics`: kMetricsHead numbers and one sum of squares.
inline void join_lanes(const double* sums, int64_t lanes, double* metrics) {
  const double tokens = sums[LaneSums::tokens(lanes)];
  metrics[kMetricLoss] = tree_sum(0, lanes, [&](int64_t lane) { return sums[lane]; });
  metrics[kMetricTokens] = tokens;
  metrics[kMetricUpdateTokens] = tokens;
  metrics[kMetricsHead] = ExactSum::value_of(sums + LaneSums::squares(lanes));
}

}  // namespace tessera
