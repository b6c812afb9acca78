// Which micro-batches of a step a replica computes, and in which order they are added up.
//
// With train.lanes = L the micro-batches of a step have fixed numbers and are dealt to L lanes,
// equal runs of them. A lane is added up from left to right, lanes along a binary tree over their
// numbers. Each replica owns an aligned group of lanes, a subtree, so that the sum is the same for
// every number of replicas (docs/decisions/018-lanes.md).
#pragma once

#include <cstdint>

#include "base/tree_shares.h"
#include "spec/run_spec.h"

namespace tessera {

// Replicas that compute different micro-batches: half of them where two groups do the same
// (train.redundancy), of which the first has the replicas below that number.
int64_t distinct_replicas(const RunSpec& spec);

// The micro-batches of one replica. All replicas have as many; where one has fewer lanes than
// another, its first ones are padding: without samples, and no part of any sum.
struct ReplicaBatch {
  int64_t micro_batches = 1;
  int64_t padding = 0;
  int64_t first = 0;     // number within the step of the first one with samples
  int64_t stride = 1;    // to the next one
  int64_t per_lane = 0;  // 0: no lanes
  TreeShare lanes;

  [[nodiscard]] bool has_lanes() const { return per_lane > 0; }
  [[nodiscard]] bool is_padding(int64_t m) const { return m < padding; }
  // Number within the step of micro-batch m, which is none of padding.
  [[nodiscard]] int64_t number_of(int64_t m) const { return first + (m - padding) * stride; }
  // Among the lanes of the replica; padding counts to the first.
  [[nodiscard]] int64_t lane_of(int64_t m) const {
    return is_padding(m) || !has_lanes() ? 0 : (m - padding) / per_lane;
  }
  [[nodiscard]] bool begins_lane(int64_t m) const {
    return is_padding(m) || (m - padding) % per_lane == 0;
  }
  [[nodiscard]] bool ends_lane(int64_t m) const {
    return !is_padding(m) && (m - padding + 1) % per_lane == 0;
  }
  // Whether a lane begins before the one before it is complete, so that each has a sum of its own.
  bool lanes_overlap = false;
  // Sums that the replica holds at one time: of lanes, then of ever larger groups of them.
  [[nodiscard]] int sums() const;
  // Which of them lane `lane` is added up in: as many sums of groups before it are complete.
  [[nodiscard]] int sum_of(int64_t lane) const;
};

// `spec` must have gone through resolve().
ReplicaBatch replica_batch(const RunSpec& spec, int64_t replica);

// ConfigError where train.lanes cannot be.
void check_lanes(const RunSpec& spec);

}  // namespace tessera
