// Which algorithm a collective runs, as one rule for planner and communicators, so that the bytes
// that the plan counts are the bytes that move.
#pragma once

#include <cstdint>
#include <string_view>

#include "collective/op.h"

namespace tessera {

enum class Algorithm : uint8_t {
  kAuto,          // choose_algorithm decides
  kOneShot,       // every rank gets every contribution and reduces all of it: one exchange
  kDirect,        // every rank reduces its slice of all contributions, then all get it: two
  kNaive,         // everything through the root
  kRing,          // n-1 steps around, and once more for an all_reduce
  kTree,          // binomial: log n steps
  kDoubling,      // recursive halving and doubling
  kHierarchical,  // inside each node, between nodes, inside again
};
constexpr int kNumAlgorithms = 8;

constexpr std::string_view name_of(Algorithm algorithm) {
  constexpr std::string_view kNames[kNumAlgorithms] = {
      "auto", "one_shot", "direct", "naive", "ring", "tree", "doubling", "hierarchical"};
  return kNames[static_cast<int>(algorithm)];
}

// Contributions of at most this many bytes are handed over in a mailbox instead of being read from
// the caller's buffer, and an all_reduce of them is one-shot.
constexpr int64_t one_shot_bytes(int ranks) { return ranks <= 2 ? 256 : 16384; }

// What kAuto means for `payload_bytes` (an all_reduce: its array; one_shot is chosen for nothing
// else). The same on every backend. The chosen one sums in order of rank.
constexpr Algorithm choose_algorithm(CollectiveOp op, int64_t payload_bytes, int ranks) {
  const bool small = payload_bytes <= one_shot_bytes(ranks) && ranks <= 8;
  return op == CollectiveOp::kAllReduce && small ? Algorithm::kOneShot : Algorithm::kDirect;
}

}  // namespace tessera
