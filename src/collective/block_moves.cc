// What algorithms that move one block per rank have in common.
#include "base/error.h"
#include "collective/algorithms.h"

namespace tessera {

using place::in;
using place::out;

StepPlace protected_input(ScheduleBuilder& b) {
  if (!b.request().in_place) return in();
  const int64_t all = b.count() * b.ranks();
  const StepPlace copied = b.scratch(all);
  b.copy(in(), copied, all);
  b.next_round();
  return copied;
}

void schedule_blocks(ScheduleBuilder& b, const BlockMoves& moves) {
  const BlockLayout shards = BlockLayout::shards(b.count(), b.ranks());
  switch (b.request().op) {
    case CollectiveOp::kAllGather:
      return moves.gather(b, shards, in());
    case CollectiveOp::kReduceScatter:
      return moves.reduce(b, shards, out());
    case CollectiveOp::kAllReduce: {
      const BlockLayout slices = BlockLayout::slices(b.request());
      const StepPlace mine = out(slices.block(b.rank()).begin);
      moves.reduce(b, slices, mine);
      return moves.gather(b, slices, mine);
    }
    default:
      TESSERA_CHECK(false, "blocks of {}", name_of(b.request().op));
  }
}

}  // namespace tessera
