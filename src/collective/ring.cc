// Ring: every rank talks to its two neighbours only, and every link is busy all the time. The
// fewest bytes for large arrays on any network; n-1 steps each way make small ones slow.
//
//   reduce_scatter, 3 ranks: a partial sum travels around and ends complete at its owner
//   step 1   0 -> 1: block 2 = a2        1 -> 2: block 0 = b0        2 -> 0: block 1 = c1
//   step 2   1 -> 2: block 2 = a2+b2     2 -> 0: block 0 = b0+c0     0 -> 1: block 1 = c1+a1
//   then     each adds its own block: 0 has b0+c0+a0, 1 has c1+a1+b1, 2 has a2+b2+c2
//
// A broadcast is a chain. The all_to_all goes to neighbours at a growing distance, one per step.
#include <algorithm>
#include <array>

#include "collective/algorithms.h"

namespace tessera {
namespace {

using place::in;
using place::out;

void broadcast(ScheduleBuilder& b) {
  const int position = b.wrap(b.rank() - b.root());  // in the chain
  for (int step = 0; step + 1 < b.ranks(); ++step) {
    if (position == step) b.send(b.neighbour(1), out(), b.count());
    if (position == step + 1) b.receive(b.neighbour(-1), out(), b.count());
    b.next_round();
  }
}

// Block j of everybody's `in` is summed into `sum` on rank j. Does not write `in`.
void reduce_blocks(ScheduleBuilder& b, const BlockLayout& layout, StepPlace sum) {
  const int steps = b.ranks() - 1;
  const SliceRange own = layout.block(b.rank());
  if (steps == 0) return b.copy(in(own.begin), sum, own.size());
  int64_t largest = 0;
  for (int rank = 0; rank < b.ranks(); ++rank) {
    largest = std::max(largest, layout.block(rank).size());
  }
  // One partial sum leaves while the next arrives.
  const std::array<StepPlace, 2> partial = {b.scratch(largest), b.scratch(largest)};
  for (int step = 0; step < steps; ++step) {
    const SliceRange leaving = layout.block(b.neighbour(-step - 1));
    const SliceRange arriving = layout.block(b.neighbour(-step - 2));
    const StepPlace here = partial[static_cast<size_t>(step % 2)];
    b.send(b.neighbour(1),
           step == 0 ? in(leaving.begin) : partial[static_cast<size_t>((step + 1) % 2)],
           leaving.size());
    b.receive(b.neighbour(-1), here, arriving.size());
    b.next_round();
    const std::array<StepPlace, 2> operands = {here, in(arriving.begin)};
    if (step + 1 == steps) {
      b.complete(operands, sum, arriving.size());
    } else {
      b.add(operands, here, arriving.size());
    }
    b.next_round();
  }
}

// `mine` of rank j becomes block j of everybody's `out`.
void gather_blocks(ScheduleBuilder& b, const BlockLayout& layout, StepPlace mine) {
  const SliceRange own = layout.block(b.rank());
  b.copy(mine, out(own.begin), own.size());
  for (int step = 0; step + 1 < b.ranks(); ++step) {
    const SliceRange leaving = layout.block(b.neighbour(-step));
    const SliceRange arriving = layout.block(b.neighbour(-step - 1));
    b.send(b.neighbour(1), step == 0 ? mine : out(leaving.begin), leaving.size());
    b.receive(b.neighbour(-1), out(arriving.begin), arriving.size());
    b.next_round();
  }
}

void all_to_all(ScheduleBuilder& b) {
  const StepPlace input = protected_input(b);
  b.copy(input + b.rank() * b.count(), out(b.rank() * b.count()), b.count());
  for (int d = 1; d < b.ranks(); ++d) {
    b.send(b.neighbour(d), input + b.neighbour(d) * b.count(), b.count());
    b.receive(b.neighbour(-d), out(b.neighbour(-d) * b.count()), b.count());
    b.next_round();
  }
}

}  // namespace

void schedule_ring(ScheduleBuilder& b) {
  switch (b.request().op) {
    case CollectiveOp::kBroadcast:
      return broadcast(b);
    case CollectiveOp::kAllToAll:
      return all_to_all(b);
    default:
      return schedule_blocks(b, {reduce_blocks, gather_blocks});
  }
}

}  // namespace tessera
