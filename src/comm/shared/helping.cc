// Where ranks outnumber cores, a rank that waits keeps a core from one that could move data, and
// every switch between them costs microseconds. So whoever runs once all have arrived moves any
// part that nobody has claimed, its own first, and a rank that gets a core late finds its part
// done.
//
// A rank claims parts after it has announced that it moves and before it announces that it has
// moved, and holds none in between two calls of advance(). So once every part is claimed, those who
// hold some are exactly members that have begun and not finished: they are waited for, as after an
// abort, and a member that has not begun will find nothing left and touch no buffer.
#include "comm/shared/call_shape.h"
#include "comm/shared/shared_communicator.h"

namespace tessera::shared {
namespace {

// Of larger calls memory is the limit, not waiting. An output that its own rank alone stores into
// stays in the caches of that rank's core, which a helper on another core would take it from.
constexpr int64_t kHelpedReduction = int64_t{8} << 20;
constexpr int64_t kHelpedOutput = int64_t{1} << 20;

}  // namespace

// Of the ops in which every rank waits for all others, those whose parts need nothing but the call
// lines.
bool SharedCommunicator::may_be_helped(const CollectiveCall& call) const {
  if (!domain_.crowded() || size() == 1 || size() > kMaxHelpedRanks) return false;
  if (has_schedule(call)) return false;
  const int64_t bytes = output_bytes(call, rank(), size());
  const bool reachable = domain_.reachable(call.out, bytes);
  switch (call.op) {
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kReduce:
      return bytes <= kHelpedReduction && reachable;
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllGather:
    case CollectiveOp::kAllToAll:
      return bytes <= kHelpedOutput && reachable;
    default:
      return false;
  }
}

bool SharedCommunicator::claim_part(const Op& op, int part) {
  const uint64_t none = op.sequence << 32;
  const uint64_t bit = uint64_t{1} << part;
  std::atomic<uint64_t>& word = group_.view.claims(op.sequence).claimed;
  uint64_t claimed = word.load();
  while (true) {
    const bool of_this_call = claimed >> 32 == none >> 32;
    if (of_this_call && (claimed & bit) != 0) return false;
    if (word.compare_exchange_weak(claimed, (of_this_call ? claimed : none) | bit)) return true;
  }
}

void SharedCommunicator::move_parts(const Op& op, Movement movement) {
  for (int step = 0; step < size(); ++step) {
    movement.rank = (rank() + step) % size();
    if (claim_part(op, movement.rank)) move(movement, group_.view);
  }
}

// Asked once this rank has moved, so that every part is claimed.
bool SharedCommunicator::holds_parts(const Op& op, int peer) const {
  const Blocker begun{&group_.view.member(peer).moving, static_cast<uint32_t>(op.sequence), nullptr,
                      peer, true};
  return reached(begun);
}

}  // namespace tessera::shared
