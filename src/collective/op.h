// The vocabulary of collective communication: pure data, shared by the planner and the
// communicators.
#pragma once

#include <cstdint>
#include <string_view>

namespace tessera {

enum class CollectiveOp : uint8_t {
  kBroadcast,
  kScatter,
  kGather,
  kReduce,
  kAllGather,
  kReduceScatter,
  kAllReduce,
  kAllToAll,
  kAllToAllV,
  kSend,
  kReceive,
  kBarrier
};
constexpr int kNumCollectiveOps = 12;

constexpr std::string_view name_of(CollectiveOp op) {
  constexpr std::string_view kNames[kNumCollectiveOps] = {
      "broadcast",  "scatter",    "gather",       "reduce", "all_gather", "reduce_scatter",
      "all_reduce", "all_to_all", "all_to_all_v", "send",   "receive",    "barrier"};
  return kNames[static_cast<int>(op)];
}

// kTreeSum: a sum along a binary tree (base/tree_shares.h), for algorithms that promise an order.
// kTwinSum: the same of the first half of the ranks, which that of the other half must equal.
enum class ReduceOp : uint8_t { kSum, kMean, kMax, kMin, kTreeSum, kTwinSum };
constexpr int kNumReduceOps = 4;  // that every algorithm and every device has

constexpr std::string_view name_of(ReduceOp op) {
  constexpr std::string_view kNames[] = {"sum", "mean", "max", "min", "tree_sum", "twin_sum"};
  return kNames[static_cast<int>(op)];
}

constexpr bool along_tree(ReduceOp op) {
  return op == ReduceOp::kTreeSum || op == ReduceOp::kTwinSum;
}

// Has one rank that is different: broadcast, scatter, gather, reduce.
constexpr bool has_root(CollectiveOp op) {
  return op == CollectiveOp::kBroadcast || op == CollectiveOp::kScatter ||
         op == CollectiveOp::kGather || op == CollectiveOp::kReduce;
}

constexpr bool reduces(CollectiveOp op) {
  return op == CollectiveOp::kReduce || op == CollectiveOp::kReduceScatter ||
         op == CollectiveOp::kAllReduce;
}

constexpr bool is_point_to_point(CollectiveOp op) {
  return op == CollectiveOp::kSend || op == CollectiveOp::kReceive;
}

}  // namespace tessera
