#include "comm/local/local_group.h"

#include <algorithm>
#include <utility>

namespace tessera {
namespace {

// Peers that are moving data cannot fail, only be slow; leaving before them would hand them freed
// buffers. So this wait is long even where the timeout for absent ranks is short.
constexpr std::chrono::milliseconds kLeavePatience{60'000};

double seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1e3; }

size_t index(CollectiveOp op) { return static_cast<size_t>(op); }

}  // namespace

void WorldFailure::raise(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (flag_.raised()) return;
  reason_ = reason;
  flag_.raise();
}

std::string WorldFailure::reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

std::string describe(const Fingerprint& call) {
  const std::string_view op = name_of(call.op);
  if (call.op == CollectiveOp::kBarrier) {
    return fmt::format("{}(tag {}) #{}", op, call.tag, call.sequence);
  }
  const std::string root =
      call.op == CollectiveOp::kBroadcast ? fmt::format(", root {}", call.root) : "";
  return fmt::format("{}({}, {}{}, tag {}) #{}", op, name_of(call.dtype), call.count, root,
                     call.tag, call.sequence);
}

LocalGroup::LocalGroup(std::string name, std::vector<int> members,
                       std::chrono::milliseconds timeout, WorldFailure& failure)
    : name_(std::move(name)),
      members_(std::move(members)),
      timeout_(timeout),
      failure_(failure),
      ranks_(members_.size()) {
  for (Member& rank : ranks_) rank.read_bytes.resize(members_.size());
}

void LocalGroup::join(int rank) {
  require(!member(rank).joined.exchange(true),
          "group {}: rank {} joined before; every member joins once", name_, world_rank(rank));
}

void LocalGroup::enter(int rank, const Call& call) {
  Member& self = member(rank);
  const uint64_t sequence = self.num_calls.load(std::memory_order_relaxed) + 1;
  Call& mine = self.slots[sequence % 2].call;
  if (failure_.flag().raised()) {
    Fingerprint late = call.fingerprint;
    late.sequence = sequence;
    throw CommError(fmt::format("group {}: rank {} called {} after the world was aborted: {}",
                                name_, world_rank(rank), describe(late), failure_.reason()));
  }
  mine = call;
  mine.fingerprint.sequence = sequence;
  arrive(self);
  self.num_calls.store(sequence, std::memory_order_relaxed);
  wait_for_arrivals(rank, mine.fingerprint);
  check_agreement(rank);
}

const Call& LocalGroup::call_of(int rank, int peer) const {
  const uint64_t sequence = member(rank).num_calls.load(std::memory_order_relaxed);
  return member(peer).slots[sequence % 2].call;
}

CollectiveOp LocalGroup::current_op(int rank) const { return call_of(rank, rank).fingerprint.op; }

void LocalGroup::arrive(Member& self) {
  self.arrivals_awaited += static_cast<uint32_t>(size());
  arrivals_.arrive(self.arrivals_awaited);
}

void LocalGroup::wait_for_arrivals(int rank, const Fingerprint& call) {
  const uint32_t target = member(rank).arrivals_awaited;
  const WaitResult result = arrivals_.wait(target, &failure_.flag(), timeout_);
  if (result == WaitResult::kReady || !arrivals_.withdraw(target)) return;
  if (result == WaitResult::kAborted) {
    throw CommError(
        fmt::format("group {}: rank {} was waiting in {} when the world was aborted: {}", name_,
                    world_rank(rank), describe(call), failure_.reason()));
  }
  fail(fmt::format("rank {} waited {:.3f} s in {} for {}", world_rank(rank), seconds(timeout_),
                   describe(call), absent_ranks(call.sequence)));
}

void LocalGroup::check_agreement(int rank) {
  const Fingerprint& first = call_of(rank, 0).fingerprint;
  for (int peer = 1; peer < size(); ++peer) {
    const Fingerprint& other = call_of(rank, peer).fingerprint;
    if (other == first) continue;
    fail(fmt::format("rank {} called {} while rank {} called {}", world_rank(peer), describe(other),
                     world_rank(0), describe(first)));
  }
}

std::string LocalGroup::absent_ranks(uint64_t sequence) const {
  std::string text;
  for (int rank = 0; rank < size(); ++rank) {
    const uint64_t num_calls = member(rank).num_calls.load(std::memory_order_relaxed);
    if (num_calls >= sequence) continue;
    const std::string state = member(rank).joined.load(std::memory_order_relaxed)
                                  ? fmt::format("made {} calls", num_calls)
                                  : "never joined";
    text += fmt::format("{}rank {} ({})", text.empty() ? "" : ", ", world_rank(rank), state);
  }
  return text;
}

void LocalGroup::leave(int rank) {
  count_call(rank);
  if (size() == 1) return;
  Member& self = member(rank);
  arrive(self);
  const std::chrono::milliseconds patience = std::max(timeout_, kLeavePatience);
  const WaitResult result = arrivals_.wait(self.arrivals_awaited, nullptr, patience);
  if (result == WaitResult::kReady) return;
  fail(fmt::format("rank {} waited {:.3f} s for a peer to finish {}", world_rank(rank),
                   seconds(patience), describe(call_of(rank, rank).fingerprint)));
}

void LocalGroup::count_call(int rank) { ++member(rank).calls[index(current_op(rank))]; }

void LocalGroup::count_read(int rank, int from, int64_t size_bytes) {
  member(rank).read_bytes[static_cast<size_t>(from)][index(current_op(rank))] += size_bytes;
}

void LocalGroup::count_stored(int rank, int64_t size_bytes) {
  member(rank).stored_bytes[index(current_op(rank))] += size_bytes;
}

TrafficCounters LocalGroup::counters(int rank) const {
  const Member& self = member(rank);
  TrafficCounters counters;
  for (size_t op = 0; op < kOps; ++op) {
    counters[op] = {self.calls[op], self.stored_bytes[op]};
    for (const Member& peer : ranks_) {
      counters[op].bytes_sent += peer.read_bytes[static_cast<size_t>(rank)][op];
    }
  }
  return counters;
}

void LocalGroup::fail(const std::string& text) {
  const std::string message = fmt::format("group {}: {}", name_, text);
  failure_.raise(message);
  throw CommError(message);
}

}  // namespace tessera
