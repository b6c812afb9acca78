// Naive: everything goes through the root (rank 0 where the op has none), one rank after the other.
// What one writes first, and what the others are measured against.
//
//   all_reduce, 3 ranks     step 1: 1 -> 0    step 2: 2 -> 0    sum    step 3: 0 -> 1   step 4: 0
//   -> 2
#include <vector>

#include "base/error.h"
#include "collective/algorithms.h"

namespace tessera {
namespace {

using place::in;
using place::out;

// Every other rank's `mine` goes to places[its rank] on the root.
void collect(ScheduleBuilder& b, int root, StepPlace mine, const std::vector<StepPlace>& places,
             int64_t count) {
  for (int rank = 0; rank < b.ranks(); ++rank) {
    if (rank == root) continue;
    if (b.rank() == rank) b.send(root, mine, count);
    if (b.rank() == root) b.receive(rank, places[static_cast<size_t>(rank)], count);
    b.next_round();
  }
}

// places[rank] on the root goes to `mine` on every other rank.
void hand_out(ScheduleBuilder& b, int root, const std::vector<StepPlace>& places, StepPlace mine,
              int64_t count) {
  for (int rank = 0; rank < b.ranks(); ++rank) {
    if (rank == root) continue;
    if (b.rank() == root) b.send(rank, places[static_cast<size_t>(rank)], count);
    if (b.rank() == rank) b.receive(root, mine, count);
    b.next_round();
  }
}

std::vector<StepPlace> same_place(const ScheduleBuilder& b, StepPlace place) {
  return std::vector<StepPlace>(static_cast<size_t>(b.ranks()), place);
}

std::vector<StepPlace> one_after_the_other(const ScheduleBuilder& b, StepPlace first) {
  std::vector<StepPlace> places;
  for (int rank = 0; rank < b.ranks(); ++rank) places.push_back(first + rank * b.count());
  return places;
}

// The sum of everybody's in[0, count) in `sum` on the root.
void reduce(ScheduleBuilder& b, int root, StepPlace sum, int64_t count) {
  std::vector<StepPlace> contributions = same_place(b, in());
  if (b.rank() == root) {
    for (int rank = 0; rank < b.ranks(); ++rank) {
      if (rank != root) contributions[static_cast<size_t>(rank)] = b.scratch(count);
    }
  }
  collect(b, root, in(), contributions, count);
  if (b.rank() == root) b.complete(contributions, sum, count);
  b.next_round();
}

void gather(ScheduleBuilder& b, int root) {
  if (b.rank() == root) b.copy(in(), out(root * b.count()), b.count());
  collect(b, root, in(), one_after_the_other(b, out()), b.count());
}

void reduce_scatter(ScheduleBuilder& b) {
  constexpr int kRoot = 0;
  const int64_t all = b.count() * b.ranks();
  const StepPlace sums = b.rank() == kRoot ? b.scratch(all) : in();
  reduce(b, kRoot, sums, all);
  if (b.rank() == kRoot) b.copy(sums + kRoot * b.count(), out(), b.count());
  hand_out(b, kRoot, one_after_the_other(b, sums), out(), b.count());
}

void barrier(ScheduleBuilder& b) {
  constexpr int kRoot = 0;
  for (const bool arriving : {true, false}) {
    for (int rank = 1; rank < b.ranks(); ++rank) {
      const int from = arriving ? rank : kRoot;
      const int to = arriving ? kRoot : rank;
      if (b.rank() == from) b.signal(to);
      if (b.rank() == to) b.await(from);
      b.next_round();
    }
  }
}

}  // namespace

void schedule_naive(ScheduleBuilder& b) {
  switch (b.request().op) {
    case CollectiveOp::kBroadcast:
      return hand_out(b, b.root(), same_place(b, out()), out(), b.count());
    case CollectiveOp::kScatter:
      if (b.is_root()) b.copy(in(b.root() * b.count()), out(), b.count());
      return hand_out(b, b.root(), one_after_the_other(b, in()), out(), b.count());
    case CollectiveOp::kGather:
      return gather(b, b.root());
    case CollectiveOp::kReduce:
      return reduce(b, b.root(), out(), b.count());
    case CollectiveOp::kAllGather:
      gather(b, 0);
      return hand_out(b, 0, same_place(b, out()), out(), b.count() * b.ranks());
    case CollectiveOp::kReduceScatter:
      return reduce_scatter(b);
    case CollectiveOp::kAllReduce:
      reduce(b, 0, out(), b.count());
      return hand_out(b, 0, same_place(b, out()), out(), b.count());
    case CollectiveOp::kBarrier:
      return barrier(b);
    default:
      TESSERA_CHECK(false, "naive {}", name_of(b.request().op));
  }
}

}  // namespace tessera
