#include "comm/shared/shared_communicator.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "comm/shared/call_shape.h"
#include "comm/shared/endpoint.h"

namespace tessera::shared {
namespace {

// A rank that waits looks for aborts and lost peers this often.
constexpr std::chrono::microseconds kLongestSleep{10'000};
// With other calls of the same thread in flight, which want to progress too.
constexpr std::chrono::microseconds kShortSleep{200};

// Whom a rank waits for, for those who look for the one that all wait for. Threads of a rank may
// wait at the same time: the last one that goes to sleep is heard.
class SaidWait {
 public:
  explicit SaidWait(std::atomic<int32_t>& word) : word_(word) {}
  ~SaidWait() {
    if (said_) word_.store(0, std::memory_order_relaxed);
  }
  SaidWait(const SaidWait&) = delete;
  SaidWait& operator=(const SaidWait&) = delete;
  void say(int world_rank) {
    said_ = true;
    word_.store(world_rank + 1, std::memory_order_relaxed);
  }

 private:
  std::atomic<int32_t>& word_;
  bool said_ = false;
};

}  // namespace

SharedCommunicator::SharedCommunicator(Endpoint& endpoint, std::string name, const std::string& key,
                                       std::span<const int> members)
    : endpoint_(endpoint),
      domain_(endpoint.domain()),
      name_(std::move(name)),
      key_(key),
      members_(members.begin(), members.end()),
      group_(domain_.enter_group(name_, key, members_, endpoint.rank())),
      site_{endpoint_, domain_, group_, name_, members_, *this},
      ways_(site_),
      messages_(domain_, group_, ways_.on_device().mover(), /*channel=*/0),
      figures_(site_) {}

SharedCommunicator::~SharedCommunicator() {
  endpoint_.remove_active(*this);
  domain_.leave_group(group_);
}

std::chrono::milliseconds SharedCommunicator::timeout() const { return domain_.patience().timeout; }

Work SharedCommunicator::start(const CollectiveCall& call) {
  const uint64_t ticket = issue(call);
  endpoint_.add_active(*this);
  return {this, ticket};
}

void SharedCommunicator::run(const CollectiveCall& call) {
  const uint64_t ticket = issue(call);
  (void)wait_until(ticket, std::chrono::milliseconds(-1));
}

bool SharedCommunicator::test(uint64_t ticket) {
  if (done(ticket)) return true;
  advance(nullptr, nullptr);
  (void)endpoint_.advance_others(*this);
  if (done(ticket)) return true;
  if (domain_.block().abort_flag.raised()) {
    Blocker calls;
    Blocker messages;
    advance(&calls, &messages);
    if (done(ticket)) return true;
    const Blocker& blocker = (ticket & kMessageTicket) != 0 ? messages : calls;
    if (blocker.word != nullptr) look_for_trouble(blocker, std::chrono::milliseconds(0));
  }
  return false;
}

bool SharedCommunicator::wait(uint64_t ticket, std::chrono::milliseconds time) {
  const bool ready = wait_until(ticket, time);
  if (idle()) endpoint_.remove_active(*this);
  return ready;
}

bool SharedCommunicator::done(uint64_t ticket) const {
  if ((ticket & kMessageTicket) != 0) return messages_.done(ticket & ~kMessageTicket);
  return completed_ >= ticket;
}

bool SharedCommunicator::idle() const { return completed_ == issued_ && messages_.idle(); }

bool SharedCommunicator::wait_until(uint64_t ticket, std::chrono::milliseconds time) {
  Waiter waiter(domain_.crowded());
  SaidWait said(domain_.block().rank[endpoint_.rank()].waits_for);
  warned_ = false;
  while (true) {
    Blocker calls;
    Blocker messages;
    advance(&calls, &messages);
    if (done(ticket)) return true;
    const bool message = (ticket & kMessageTicket) != 0;
    const bool others =
        endpoint_.advance_others(*this) || (message ? completed_ != issued_ : !messages_.idle());
    const Blocker& blocker = message ? messages : calls;
    if (blocker.word == nullptr) continue;
    if (!others && waiter.spin(blocker)) continue;
    const std::chrono::milliseconds waited = waiter.waited();
    look_for_trouble(blocker, waited);
    if (time.count() >= 0 && waited >= time) return false;
    said.say(world_rank(blocker.peer));
    waiter.sleep(blocker, others ? kShortSleep : kLongestSleep);
  }
}

uint64_t SharedCommunicator::issue(const CollectiveCall& call) {
  validate(call);
  if (domain_.block().abort_flag.raised()) {
    const std::string reason = abort_reason(domain_.block());
    throw CommError(fmt::format("group {}: rank {} called {} after the world was aborted: {}",
                                name_, endpoint_.rank(), describe(call, issued_ + 1), reason));
  }
  const bool on_device = ways_.on_device().lies_there(call, issued_ + 1);
  if (is_point_to_point(call.op)) return issue_message(call, on_device);
  const uint64_t sequence = issued_ + 1;
  if (sequence - completed_ > kCallSlots) {
    (void)wait_until(sequence - kCallSlots, std::chrono::milliseconds(-1));
  }
  PendingCall& next = at(sequence);
  next = PendingCall{.call = call,
                     .sequence = sequence,
                     .on_device = on_device,
                     .mailed = !on_device && fits_mail(call, size()),
                     .scheduled = has_schedule(call)};
  if (call.op == CollectiveOp::kBroadcast) next.call.in = call.out;
  next.history = history_ = extend_history(history_, call);
  issued_ = sequence;
  group_.view.member(rank()).issued.store(sequence, std::memory_order_relaxed);
  figures_.record(call, sequence);
  publish(next);
  return sequence;
}

uint64_t SharedCommunicator::issue_message(const CollectiveCall& call, bool on_device) {
  while (true) {
    if (const std::optional<uint64_t> ticket = messages_.issue(call, call.op, on_device)) {
      figures_.record(call, *ticket);
      return *ticket | kMessageTicket;
    }
    (void)wait_until(messages_.oldest_ticket() | kMessageTicket, std::chrono::milliseconds(-1));
  }
}

// Peers have moved every call that used the same line and the same mailbox, and so has this rank,
// which reads its own mail too.
bool SharedCommunicator::lines_free(const PendingCall& pending, Blocker* blocker) {
  uint64_t needed = pending.sequence > kCallSlots ? pending.sequence - kCallSlots : 0;
  if (pending.mailed) {
    const uint64_t last_in_mailbox = mailed_sequence_[num_mailed_ % kMailSlots];
    if (last_in_mailbox > moved_) return false;
    needed = std::max(needed, last_in_mailbox);
  }
  if (needed == 0 || static_cast<int32_t>(peers_moved_ - static_cast<uint32_t>(needed)) >= 0) {
    return true;
  }
  uint32_t least = static_cast<uint32_t>(pending.sequence);
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    Counter& moved = group_.view.member(peer).moved;
    const Blocker wanted{&moved.value, static_cast<uint32_t>(needed), &moved.sleepers, peer, false};
    if (!reached(wanted)) {
      if (blocker != nullptr && blocker->word == nullptr) *blocker = wanted;
      return false;
    }
    const uint32_t value = moved.value.load(std::memory_order_relaxed);
    if (static_cast<int32_t>(value - least) < 0) least = value;
  }
  peers_moved_ = least;
  return true;
}

void SharedCommunicator::put_in_mailbox(const PendingCall& pending, CallLine& line) {
  line.flags |= kMailed;
  line.mail_slot = static_cast<uint8_t>(num_mailed_ % kMailSlots);
  mailed_sequence_[line.mail_slot] = pending.sequence;
  ++num_mailed_;
  const int64_t in_bytes = input_bytes(pending.call, rank(), size());
  if (in_bytes == 0) return;
  std::memcpy(group_.view.mail(rank(), line.mail_slot), pending.call.in,
              static_cast<size_t>(in_bytes));
}

// Before the first `advance` gets here the call is in flight already, so a rank that runs ahead of
// its peers by all lines or mailboxes waits in wait(), not in start().
void SharedCommunicator::publish(PendingCall& pending) {
  if (pending.published || !lines_free(pending, nullptr)) return;
  const CollectiveCall& call = pending.call;
  CallLine& line = group_.view.call(rank(), pending.sequence);
  line.op = call.op;
  line.reduce = call.reduce;
  line.dtype = call.dtype;
  line.algorithm = call.algorithm;
  line.root = call.root;
  line.tag = call.tag;
  line.count = call.count;
  line.history = pending.history;
  line.flags = ways_.on_device().memory_flag(pending);
  if (pending.mailed) {
    put_in_mailbox(pending, line);
  } else {
    line.flags |= ways_.buffer_flags(pending);
    line.in = domain_.reference(call.in);
    line.out = domain_.reference(call.out);
  }
  if (call.op == CollectiveOp::kAllToAllV) {
    int64_t* counts = group_.view.counts(rank(), pending.sequence);
    std::copy(call.send_counts.begin(), call.send_counts.end(), counts);
    std::copy(call.receive_counts.begin(), call.receive_counts.end(), counts + size());
  }
  pending.published = true;
  line.arrival_ticks = __rdtsc();
  announce(line.arrived, static_cast<uint32_t>(pending.sequence), line.sleepers);
}

void SharedCommunicator::advance(Blocker* calls, Blocker* messages) {
  if (!messages_.idle()) {
    const std::optional<std::string> wrong = messages_.advance(messages, members_);
    if (wrong) fail(*wrong);
  }
  if (completed_ == issued_) return;
  publish_calls(calls);
  move_calls(calls);
  leave_calls(calls);
}

void SharedCommunicator::publish_calls(Blocker* blocker) {
  for (; published_ < issued_; ++published_) {
    PendingCall& next = at(published_ + 1);
    publish(next);
    if (!next.published) {
      (void)lines_free(next, blocker);
      return;
    }
  }
}

// What is wrong with the data itself (twins that differ) is for the caller to say.
bool SharedCommunicator::move(const PendingCall& pending, Blocker* blocker) {
  try {
    return ways_.of(pending).move(pending, blocker);
  } catch (const CommError&) {
    throw;
  } catch (const Error&) {
    abandon();
    throw;
  }
}

void SharedCommunicator::move_calls(Blocker* blocker) {
  while (moved_ < published_) {
    PendingCall& next = at(moved_ + 1);
    if (!arrive(next, blocker) || !move(next, blocker)) return;
    moved_ = next.sequence;
    Counter& moved = group_.view.member(rank()).moved;
    announce(moved.value, static_cast<uint32_t>(moved_), moved.sleepers);
  }
}

void SharedCommunicator::leave_calls(Blocker* blocker) {
  while (completed_ < moved_) {
    const PendingCall& next = at(completed_ + 1);
    if (!leave(next, blocker)) return;
    completed_ = next.sequence;
  }
}

bool SharedCommunicator::has_arrived(int peer, uint64_t sequence) const {
  const CallLine& line = group_.view.call(peer, sequence);
  return line.arrived.load() == static_cast<uint32_t>(sequence);
}

bool SharedCommunicator::arrive(PendingCall& pending, Blocker* blocker) {
  if (pending.checked == size()) return true;
  for (; pending.checked < size(); ++pending.checked) {
    if (!awaits(pending, rank(), pending.checked)) continue;
    CallLine& line = group_.view.call(pending.checked, pending.sequence);
    const Blocker wanted{&line.arrived, static_cast<uint32_t>(pending.sequence), &line.sleepers,
                         pending.checked, false};
    if (!reached(wanted)) {
      if (blocker != nullptr && blocker->word == nullptr) *blocker = wanted;
      return false;
    }
    check_agreement(pending, pending.checked);
    pending.any_flags |= line.flags;
    pending.all_flags &= line.flags;
  }
  const uint8_t mine = group_.view.call(rank(), pending.sequence).flags;
  pending.any_flags |= mine;
  pending.all_flags &= mine;
  ways_.choose(pending);
  ways_.on_device().check_same_memory(pending);
  if (pending.call.op == CollectiveOp::kAllToAllV) check_counts(pending);
  figures_.note_lateness(pending);
  if (!pending.mailed) begin_moving(pending);
  return true;
}

void SharedCommunicator::begin_moving(const PendingCall& pending) {
  Member& mine = group_.view.member(rank());
  mine.moving.store(static_cast<uint32_t>(pending.sequence), std::memory_order_seq_cst);
  if (!domain_.block().abort_flag.raised()) return;
  abandon();
  throw_aborted();
}

// Whose buffers do peers use after this rank has moved its part?
bool SharedCommunicator::leave(const PendingCall& pending, Blocker* blocker) {
  if (pending.leaves_at_once()) return true;
  const CollectiveOp kind = pending.call.op;
  const bool root_only = kind == CollectiveOp::kBroadcast || kind == CollectiveOp::kScatter ||
                         kind == CollectiveOp::kGather;
  if (root_only && rank() != pending.call.root) return true;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    Counter& moved = group_.view.member(peer).moved;
    const Blocker wanted{&moved.value, static_cast<uint32_t>(pending.sequence), &moved.sleepers,
                         peer, has_arrived(peer, pending.sequence)};
    if (reached(wanted) || !ways_.may_touch(pending, peer)) continue;
    if (blocker != nullptr && blocker->word == nullptr) *blocker = wanted;
    return false;
  }
  return true;
}

void SharedCommunicator::validate(const CollectiveCall& call) {
  const std::string wrong = what_is_wrong(call, rank(), size());
  if (wrong.empty()) return;
  fail(
      fmt::format("rank {} called {}: {}", world_rank(rank()), describe(call, issued_ + 1), wrong));
}

std::unique_ptr<Communicator> SharedCommunicator::split(int color, int key,
                                                        const std::string& name) {
  const std::vector<int> chosen = exchange_colors(*this, color, key);
  const std::string unique = fmt::format("{}/{}#{}:{}", key_, name, ++num_splits_, color);
  return chosen.empty() ? nullptr : endpoint_.join_as(name, unique, chosen);
}

}  // namespace tessera::shared
