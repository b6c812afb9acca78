// Whether the ranks of a group call the same things in the same order.
#include <algorithm>

#include "comm/shared/call_shape.h"
#include "comm/shared/shared_communicator.h"

namespace tessera::shared {

// A call whose rank does not wait for all others is compared with theirs in a later one.
void SharedCommunicator::check_agreement(const PendingCall& pending, int peer) {
  if (group_.view.call(peer, pending.sequence).history == pending.history) return;
  const uint64_t oldest = pending.sequence < kCallSlots ? 1 : pending.sequence - kCallSlots + 1;
  for (uint64_t sequence = oldest; sequence <= pending.sequence; ++sequence) {
    const std::optional<CollectiveCall> mine = call_of(rank(), sequence);
    const std::optional<CollectiveCall> theirs = call_of(peer, sequence);
    if (mine && theirs && extend_history(0, *mine) != extend_history(0, *theirs)) {
      fail_mismatch(peer, sequence);
    }
  }
  fail(fmt::format("ranks {} and {} called different collectives before #{}",
                   world_rank(std::min(rank(), peer)), world_rank(std::max(rank(), peer)), oldest));
}

void SharedCommunicator::fail_mismatch(int peer, uint64_t sequence) {
  const CollectiveCall mine = call_of(rank(), sequence).value_or(CollectiveCall{});
  const CollectiveCall theirs = call_of(peer, sequence).value_or(CollectiveCall{});
  // The lowest rank that called the same as this one stands for it.
  int lowest = rank();
  for (int member = 0; member < lowest; ++member) {
    const std::optional<CollectiveCall> same = call_of(member, sequence);
    if (same && extend_history(0, *same) == extend_history(0, mine)) lowest = member;
  }
  const bool peer_first = peer < lowest;
  fail(fmt::format(
      "rank {} called {} while rank {} called {}", world_rank(peer_first ? rank() : peer),
      describe(peer_first ? mine : theirs, sequence), world_rank(peer_first ? peer : lowest),
      describe(peer_first ? theirs : mine, sequence)));
}

std::optional<CollectiveCall> SharedCommunicator::call_of(int member, uint64_t sequence) const {
  const CallLine& line = group_.view.call(member, sequence);
  if (line.arrived.load(std::memory_order_acquire) != static_cast<uint32_t>(sequence)) return {};
  return CollectiveCall{.op = line.op,
                        .reduce = line.reduce,
                        .dtype = line.dtype,
                        .root = line.root,
                        .tag = line.tag,
                        .count = line.count,
                        .algorithm = line.algorithm};
}

void SharedCommunicator::check_counts(const PendingCall& pending) {
  for (int peer = 0; peer < size(); ++peer) {
    const int64_t sent = group_.view.counts(peer, pending.sequence)[rank()];
    const int64_t expected = pending.call.receive_counts[static_cast<size_t>(peer)];
    if (sent == expected) continue;
    fail(fmt::format("rank {} sends {} elements to rank {}, which expects {}, in {}",
                     world_rank(peer), sent, world_rank(rank()), expected,
                     describe(pending.call, pending.sequence)));
  }
}

}  // namespace tessera::shared
