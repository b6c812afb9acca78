#include "comm/shared/helping.h"

#include "comm/shared/call_shape.h"

namespace tessera::shared {
namespace {

// Memory, not waiting, is the limit of larger calls. An output that its own rank alone stores into
// stays in the caches of that rank's core, which a helper on another core would take it from.
constexpr int64_t kHelpedReduction = int64_t{8} << 20;
constexpr int64_t kHelpedOutput = int64_t{1} << 20;

}  // namespace

// Ops in which every rank waits for all others, and whose parts need nothing but the call lines.
bool Helping::may_be_helped(const CollectiveCall& call) const {
  const int size = site_.size();
  if (!site_.domain.crowded() || size == 1 || size > kMaxHelpedRanks) return false;
  if (has_schedule(call)) return false;
  const int64_t bytes = output_bytes(call, site_.rank(), size);
  const bool reachable = site_.domain.reachable(call.out, bytes);
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

bool Helping::claim_part(const PendingCall& pending, int part) const {
  const uint64_t none = pending.sequence << 32;
  const uint64_t bit = uint64_t{1} << part;
  std::atomic<uint64_t>& word = site_.view().claims(pending.sequence).claimed;
  uint64_t claimed = word.load();
  while (true) {
    const bool of_this_call = claimed >> 32 == none >> 32;
    if (of_this_call && (claimed & bit) != 0) return false;
    if (word.compare_exchange_weak(claimed, (of_this_call ? claimed : none) | bit)) return true;
  }
}

bool Helping::move(const PendingCall& pending, Blocker* /*blocker*/) {
  Movement movement = assembly_.whole(pending);
  for (int step = 0; step < site_.size(); ++step) {
    movement.rank = (site_.rank() + step) % site_.size();
    if (claim_part(pending, movement.rank)) shared::move(movement, site_.view());
  }
  return true;
}

bool Helping::holds_parts(const PendingCall& pending, int peer) const {
  const Blocker begun{&site_.view().member(peer).moving, static_cast<uint32_t>(pending.sequence),
                      nullptr, peer, true};
  return reached(begun);
}

}  // namespace tessera::shared
