// Direct: everyone talks to everyone it has something for, all at once. The fewest steps, the
// fewest bytes, and every sum in order of rank; it needs a network where all pairs of ranks can
// talk at the same time.
//
//   all_reduce, 3 ranks     step 1: block j of every rank -> rank j       step 2: sums -> everybody
//   rank 0   [a0|a1|a2]     [a0+b0+c0|  .  |  .  ]                       [s0|s1|s2]
//   rank 1   [b0|b1|b2]     [  .  |a1+b1+c1|  .  ]                       [s0|s1|s2]
//   rank 2   [c0|c1|c2]     [  .  |  .  |a2+b2+c2]                       [s0|s1|s2]
#include <numeric>
#include <vector>

#include "collective/algorithms.h"

namespace tessera {
namespace {

using place::in;
using place::out;

void broadcast(ScheduleBuilder& b) {
  if (!b.is_root()) return b.receive(b.root(), out(), b.count());
  for (int d = 1; d < b.ranks(); ++d) b.send(b.neighbour(d), out(), b.count());
}

void scatter(ScheduleBuilder& b) {
  if (!b.is_root()) return b.receive(b.root(), out(), b.count());
  for (int d = 1; d < b.ranks(); ++d) {
    b.send(b.neighbour(d), in(b.neighbour(d) * b.count()), b.count());
  }
  b.copy(in(b.rank() * b.count()), out(), b.count());
}

void gather(ScheduleBuilder& b) {
  if (!b.is_root()) return b.send(b.root(), in(), b.count());
  for (int d = 1; d < b.ranks(); ++d) {
    b.receive(b.neighbour(d), out(b.neighbour(d) * b.count()), b.count());
  }
  b.copy(in(), out(b.rank() * b.count()), b.count());
}

void reduce(ScheduleBuilder& b) {
  if (!b.is_root()) return b.send(b.root(), in(), b.count());
  std::vector<StepPlace> contributions(static_cast<size_t>(b.ranks()), in());
  for (int d = 1; d < b.ranks(); ++d) {
    StepPlace& place = contributions[static_cast<size_t>(b.neighbour(d))] = b.scratch(b.count());
    b.receive(b.neighbour(d), place, b.count());
  }
  b.next_round();
  b.complete(contributions, out(), b.count());
}

// Block j of everybody's `in` is summed into `sum` on rank j.
void reduce_blocks(ScheduleBuilder& b, const BlockLayout& layout, StepPlace sum) {
  const SliceRange mine = layout.block(b.rank());
  std::vector<StepPlace> contributions(static_cast<size_t>(b.ranks()), in(mine.begin));
  for (int d = 1; d < b.ranks(); ++d) {
    const SliceRange theirs = layout.block(b.neighbour(d));
    b.send(b.neighbour(d), in(theirs.begin), theirs.size());
    const int from = b.neighbour(-d);
    StepPlace& place = contributions[static_cast<size_t>(from)] = b.scratch(mine.size());
    b.receive(from, place, mine.size());
  }
  b.next_round();
  b.complete(contributions, sum, mine.size());
  b.next_round();
}

// `mine` of rank j becomes block j of everybody's `out`.
void gather_blocks(ScheduleBuilder& b, const BlockLayout& layout, StepPlace mine) {
  const SliceRange own = layout.block(b.rank());
  for (int d = 1; d < b.ranks(); ++d) {
    b.send(b.neighbour(d), mine, own.size());
    const SliceRange theirs = layout.block(b.neighbour(-d));
    b.receive(b.neighbour(-d), out(theirs.begin), theirs.size());
  }
  b.copy(mine, out(own.begin), own.size());
}

void all_to_all(ScheduleBuilder& b) {
  const StepPlace input = protected_input(b);
  for (int d = 1; d < b.ranks(); ++d) {
    b.send(b.neighbour(d), input + b.neighbour(d) * b.count(), b.count());
    b.receive(b.neighbour(-d), out(b.neighbour(-d) * b.count()), b.count());
  }
  b.copy(input + b.rank() * b.count(), out(b.rank() * b.count()), b.count());
}

void all_to_all_v(ScheduleBuilder& b) {
  const auto place = [](std::span<const int64_t> counts, int rank) {
    return std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
  };
  const std::span<const int64_t> sent = b.request().send_counts;
  const std::span<const int64_t> received = b.request().receive_counts;
  for (int d = 1; d < b.ranks(); ++d) {
    const int to = b.neighbour(d);
    const int from = b.neighbour(-d);
    b.send(to, in(place(sent, to)), sent[static_cast<size_t>(to)]);
    b.receive(from, out(place(received, from)), received[static_cast<size_t>(from)]);
  }
  b.copy(in(place(sent, b.rank())), out(place(received, b.rank())),
         sent[static_cast<size_t>(b.rank())]);
}

void barrier(ScheduleBuilder& b) {
  for (int d = 1; d < b.ranks(); ++d) {
    b.signal(b.neighbour(d));
    b.await(b.neighbour(-d));
  }
}

}  // namespace

void schedule_direct(ScheduleBuilder& b) {
  switch (b.request().op) {
    case CollectiveOp::kBroadcast:
      return broadcast(b);
    case CollectiveOp::kScatter:
      return scatter(b);
    case CollectiveOp::kGather:
      return gather(b);
    case CollectiveOp::kReduce:
      return reduce(b);
    case CollectiveOp::kAllGather:
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllReduce:
      return schedule_blocks(b, {reduce_blocks, gather_blocks});
    case CollectiveOp::kAllToAll:
      return all_to_all(b);
    case CollectiveOp::kAllToAllV:
      return all_to_all_v(b);
    case CollectiveOp::kSend:
      return b.send(b.root(), in(), b.count());
    case CollectiveOp::kReceive:
      return b.receive(b.root(), out(), b.count());
    case CollectiveOp::kBarrier:
      return barrier(b);
  }
}

}  // namespace tessera
