// Doubling: the distance to the partner doubles (or halves) every step, so log2(n) steps, with no
// more bytes than a ring. For any number of ranks: rank r talks to r + 2^k and r - 2^k around the
// ring, and a rank always holds the blocks that follow its own.
//
//   all_gather, 5 ranks: what rank 0 holds
//   step 1   0 <- 1          0 1
//   step 2   0 <- 2          0 1 2 3
//   step 3   0 <- 4          0 1 2 3 4     (the last step sends only what is missing)
//
// A reduce_scatter is the same backwards: partial sums of the blocks that follow are given away
// until the own block is left. An all_reduce is one after the other.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "collective/algorithms.h"

namespace tessera {
namespace {

using place::in;
using place::out;

// Blocks that change hands when the distance is `distance`.
int blocks_at(int distance, int ranks) { return std::min(distance, ranks - distance); }

int largest_distance(int ranks) { return (1 << log2_rounds(ranks)) / 2; }

// Calls move(range) for the blocks first … first + num - 1 of the array.
template <typename Move>
void each_range(const BlockLayout& layout, int first, int num, const Move& move) {
  const BlockLayout::Ranges ranges = layout.blocks(first, num);
  move(ranges.first);
  move(ranges.second);
}

// `mine` of rank j becomes block j of everybody's `out`.
void gather_blocks(ScheduleBuilder& b, const BlockLayout& layout, StepPlace mine) {
  const SliceRange own = layout.block(b.rank());
  b.copy(mine, out(own.begin), own.size());
  b.next_round();
  for (int distance = 1; distance < b.ranks(); distance *= 2) {
    const int num = blocks_at(distance, b.ranks());
    each_range(layout, b.rank(), num, [&](SliceRange range) {
      b.send(b.neighbour(-distance), out(range.begin), range.size());
    });
    each_range(layout, b.neighbour(distance), num, [&](SliceRange range) {
      b.receive(b.neighbour(distance), out(range.begin), range.size());
    });
    b.next_round();
  }
}

// Block j of everybody's `in` is summed into block j of `sums` on rank j; `sums` has room for all.
void reduce_blocks(ScheduleBuilder& b, const BlockLayout& layout, StepPlace sums) {
  const int64_t all = layout.block(b.ranks() - 1).end;
  b.copy(in(), sums, all);
  b.next_round();
  const StepPlace arriving = b.scratch(b.ranks() > 1 ? all : 0);
  for (int distance = largest_distance(b.ranks()); distance > 0; distance /= 2) {
    const int num = blocks_at(distance, b.ranks());
    each_range(layout, b.neighbour(distance), num, [&](SliceRange range) {
      b.send(b.neighbour(distance), sums + range.begin, range.size());
    });
    each_range(layout, b.rank(), num, [&](SliceRange range) {
      b.receive(b.neighbour(-distance), arriving + range.begin, range.size());
    });
    b.next_round();
    each_range(layout, b.rank(), num, [&](SliceRange range) {
      const std::array<StepPlace, 2> operands = {sums + range.begin, arriving + range.begin};
      // At distance 1 the range is the own block, and everything has arrived.
      if (distance == 1) {
        b.complete(operands, sums + range.begin, range.size());
      } else {
        b.add(operands, sums + range.begin, range.size());
      }
    });
    b.next_round();
  }
}

void reduce_scatter(ScheduleBuilder& b) {
  const BlockLayout shards = BlockLayout::shards(b.count(), b.ranks());
  const StepPlace sums = b.scratch(b.count() * b.ranks());
  reduce_blocks(b, shards, sums);
  b.copy(sums + b.rank() * b.count(), out(), b.count());
}

void all_reduce(ScheduleBuilder& b) {
  const BlockLayout slices = BlockLayout::slices(b.request());
  reduce_blocks(b, slices, out());
  gather_blocks(b, slices, out(slices.block(b.rank()).begin));
}

// Step k: whoever knows that 2^k ranks have arrived tells the rank 2^k further on.
void barrier(ScheduleBuilder& b) {
  for (int distance = 1; distance < b.ranks(); distance *= 2) {
    b.signal(b.neighbour(distance));
    b.await(b.neighbour(-distance));
    b.next_round();
  }
}

}  // namespace

void schedule_doubling(ScheduleBuilder& b) {
  switch (b.request().op) {
    case CollectiveOp::kAllGather:
      return gather_blocks(b, BlockLayout::shards(b.count(), b.ranks()), in());
    case CollectiveOp::kReduceScatter:
      return reduce_scatter(b);
    case CollectiveOp::kAllReduce:
      return all_reduce(b);
    case CollectiveOp::kBarrier:
      return barrier(b);
    default:
      TESSERA_CHECK(false, "doubling {}", name_of(b.request().op));
  }
}

}  // namespace tessera
