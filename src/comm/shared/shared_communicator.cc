#include "comm/shared/shared_communicator.h"

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "comm/shared/call_shape.h"
#include "comm/shared/endpoint.h"

namespace tessera::shared {
namespace {

// A rank that waits looks for aborts and lost peers this often.
constexpr std::chrono::microseconds kLongestSleep{10'000};
// With other calls of the same thread in flight, which want to progress too.
constexpr std::chrono::microseconds kShortSleep{200};

double seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1e3; }

size_t index(CollectiveOp op) { return static_cast<size_t>(op); }

uint64_t extend_history(uint64_t history, const CollectiveCall& call) {
  const auto kind = static_cast<uint64_t>(call.op) | static_cast<uint64_t>(call.reduce) << 8 |
                    static_cast<uint64_t>(call.dtype) << 16 |
                    static_cast<uint64_t>(call.algorithm) << 24 |
                    static_cast<uint64_t>(static_cast<uint32_t>(call.root)) << 32;
  for (const uint64_t word :
       {kind, static_cast<uint64_t>(call.tag), static_cast<uint64_t>(call.count)}) {
    history = (history ^ word) * 0x9E3779B97F4A7C15U;
    history ^= history >> 32;
  }
  return history;
}

}  // namespace

SharedCommunicator::SharedCommunicator(Endpoint& endpoint, std::string name, const std::string& key,
                                       std::span<const int> members)
    : endpoint_(endpoint),
      domain_(endpoint.domain()),
      name_(std::move(name)),
      key_(key),
      members_(members.begin(), members.end()),
      group_(domain_.enter_group(name_, key, members_, endpoint.rank())),
      messages_(domain_, group_, 0),
      schedule_messages_(domain_, group_, 1),
      in_(members.size()),
      out_(members.size()),
      sources_(members.size()),
      targets_(members.size()),
      offsets_(members.size()),
      lengths_(members.size()),
      lateness_(members.size()),
      times_last_(members.size()),
      first_ticks_(__rdtsc()),
      first_time_(std::chrono::steady_clock::now()) {}

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
  if (is_point_to_point(call.op)) {
    while (true) {
      if (const std::optional<uint64_t> ticket = messages_.issue(call, call.op)) {
        ++calls_[index(call.op)];
        record(call, *ticket);
        return *ticket | kMessageTicket;
      }
      (void)wait_until(messages_.oldest_ticket() | kMessageTicket, std::chrono::milliseconds(-1));
    }
  }
  const uint64_t sequence = issued_ + 1;
  if (sequence - completed_ > kCallSlots) {
    (void)wait_until(sequence - kCallSlots, std::chrono::milliseconds(-1));
  }
  Op& next = op(sequence);
  next = Op{.call = call,
            .sequence = sequence,
            .mailed = fits_mail(call, size()),
            .scheduled = has_schedule(call)};
  if (call.op == CollectiveOp::kBroadcast) next.call.in = call.out;
  next.history = history_ = extend_history(history_, call);
  issued_ = sequence;
  group_.view.member(rank()).issued.store(sequence, std::memory_order_relaxed);
  ++calls_[index(call.op)];
  record(call, sequence);
  publish(next);
  return sequence;
}

// Peers have moved every call that used the same line and the same mailbox, and so has this rank,
// which reads its own mail too.
bool SharedCommunicator::lines_free(const Op& op, Blocker* blocker) {
  uint64_t needed = op.sequence > kCallSlots ? op.sequence - kCallSlots : 0;
  if (op.mailed) {
    const uint64_t last_in_mailbox = mailed_sequence_[num_mailed_ % kMailSlots];
    if (last_in_mailbox > moved_) return false;
    needed = std::max(needed, last_in_mailbox);
  }
  if (needed == 0 || static_cast<int32_t>(peers_moved_ - static_cast<uint32_t>(needed)) >= 0) {
    return true;
  }
  uint32_t least = static_cast<uint32_t>(op.sequence);
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

// Before the first `advance` gets here the call is in flight already, so a rank that runs ahead of
// its peers by all lines or mailboxes waits in wait(), not in start().
void SharedCommunicator::publish(Op& op) {
  if (op.published || !lines_free(op, nullptr)) return;
  const CollectiveCall& call = op.call;
  CallLine& line = group_.view.call(rank(), op.sequence);
  line.op = call.op;
  line.reduce = call.reduce;
  line.dtype = call.dtype;
  line.algorithm = call.algorithm;
  line.root = call.root;
  line.tag = call.tag;
  line.count = call.count;
  line.history = op.history;
  line.flags = 0;
  const int64_t in_bytes = input_bytes(call, rank(), size());
  const int64_t out_bytes = output_bytes(call, rank(), size());
  if (op.mailed) {
    line.flags = kMailed;
    line.mail_slot = static_cast<uint8_t>(num_mailed_ % kMailSlots);
    mailed_sequence_[line.mail_slot] = op.sequence;
    ++num_mailed_;
    if (in_bytes > 0) {
      std::memcpy(group_.view.mail(rank(), line.mail_slot), call.in, static_cast<size_t>(in_bytes));
    }
  } else {
    const bool in_reached = !peers_read_input(call.op) || domain_.reachable(call.in, in_bytes);
    const bool out_reached = !peers_store_output(call.op) || domain_.reachable(call.out, out_bytes);
    if (!in_reached) line.flags |= kForeignIn;
    if (!out_reached) line.flags |= kForeignOut;
    if (call.in == call.out && in_bytes > 0) line.flags |= kInPlace;
    if ((line.flags & (kForeignIn | kForeignOut)) && !op.scheduled) make_stage();
    line.in = domain_.reference(call.in);
    line.out = domain_.reference(call.out);
  }
  if (call.op == CollectiveOp::kAllToAllV) {
    int64_t* counts = group_.view.counts(rank(), op.sequence);
    std::copy(call.send_counts.begin(), call.send_counts.end(), counts);
    std::copy(call.receive_counts.begin(), call.receive_counts.end(), counts + size());
  }
  op.published = true;
  line.arrival_ticks = __rdtsc();
  announce(line.arrived, static_cast<uint32_t>(op.sequence), line.sleepers);
}

void SharedCommunicator::advance(Blocker* calls, Blocker* messages) {
  if (!messages_.idle()) {
    const std::optional<std::string> wrong = messages_.advance(messages, members_);
    if (wrong) fail(*wrong);
  }
  if (completed_ == issued_) return;
  while (published_ < issued_) {
    Op& next = op(published_ + 1);
    publish(next);
    if (!next.published) {
      (void)lines_free(next, calls);
      break;
    }
    ++published_;
  }
  while (moved_ < published_) {
    Op& next = op(moved_ + 1);
    if (!arrive(next, calls)) break;
    if (next.scheduled) {
      if (!move_scheduled(next, calls)) break;
    } else if (next.staged) {
      if (!move_staged(next, calls)) break;
    } else {
      move_data(next);
    }
    moved_ = next.sequence;
    Counter& moved = group_.view.member(rank()).moved;
    announce(moved.value, static_cast<uint32_t>(moved_), moved.sleepers);
  }
  while (completed_ < moved_) {
    Op& next = op(completed_ + 1);
    if (!leave(next, calls)) break;
    completed_ = next.sequence;
  }
}

bool SharedCommunicator::awaits(const Op& op, int peer) const {
  if (peer == rank()) return false;
  if (op.scheduled) return true;
  switch (op.call.op) {
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kScatter:
      return peer == op.call.root;
    case CollectiveOp::kGather:  // the root takes from mailboxes; others store at the root
      return op.mailed ? rank() == op.call.root : peer == op.call.root;
    case CollectiveOp::kReduce:
      return !op.mailed || rank() == op.call.root;
    default:
      return true;
  }
}

bool SharedCommunicator::has_arrived(int peer, uint64_t sequence) const {
  const CallLine& line = group_.view.call(peer, sequence);
  return line.arrived.load() == static_cast<uint32_t>(sequence);
}

bool SharedCommunicator::arrive(Op& op, Blocker* blocker) {
  if (op.checked == size()) return true;
  for (; op.checked < size(); ++op.checked) {
    if (!awaits(op, op.checked)) continue;
    CallLine& line = group_.view.call(op.checked, op.sequence);
    const Blocker wanted{&line.arrived, static_cast<uint32_t>(op.sequence), &line.sleepers,
                         op.checked, false};
    if (!reached(wanted)) {
      if (blocker != nullptr && blocker->word == nullptr) *blocker = wanted;
      return false;
    }
    check_agreement(op, op.checked);
    op.staged = op.staged || (line.flags & (kForeignIn | kForeignOut)) != 0;
    op.any_in_place = op.any_in_place || (line.flags & kInPlace) != 0;
  }
  const uint8_t mine = group_.view.call(rank(), op.sequence).flags;
  op.staged = op.staged || (mine & (kForeignIn | kForeignOut)) != 0;
  op.any_in_place = op.any_in_place || (mine & kInPlace) != 0;
  if (op.call.op == CollectiveOp::kAllToAllV) check_counts(op);
  note_lateness(op);
  if (!op.mailed) begin_moving(op);
  return true;
}

void SharedCommunicator::begin_moving(const Op& op) {
  Member& mine = group_.view.member(rank());
  mine.moving.store(static_cast<uint32_t>(op.sequence), std::memory_order_seq_cst);
  if (!domain_.block().abort_flag.raised()) return;
  abandon();
  throw_aborted();
}

// A call whose rank does not wait for all others is compared with theirs in a later one.
void SharedCommunicator::check_agreement(const Op& op, int peer) {
  if (group_.view.call(peer, op.sequence).history == op.history) return;
  const uint64_t oldest = op.sequence < kCallSlots ? 1 : op.sequence - kCallSlots + 1;
  for (uint64_t sequence = oldest; sequence <= op.sequence; ++sequence) {
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

void SharedCommunicator::check_counts(const Op& op) {
  for (int peer = 0; peer < size(); ++peer) {
    const int64_t sent = group_.view.counts(peer, op.sequence)[rank()];
    const int64_t expected = op.call.receive_counts[static_cast<size_t>(peer)];
    if (sent == expected) continue;
    fail(fmt::format("rank {} sends {} elements to rank {}, which expects {}, in {}",
                     world_rank(peer), sent, world_rank(rank()), expected,
                     describe(op.call, op.sequence)));
  }
}

void SharedCommunicator::note_lateness(const Op& op) {
  if (size() == 1) return;
  uint64_t first = group_.view.call(rank(), op.sequence).arrival_ticks;
  uint64_t last = first;
  int latest = rank();
  for (int peer = 0; peer < size(); ++peer) {
    if (!awaits(op, peer)) continue;
    const uint64_t ticks = group_.view.call(peer, op.sequence).arrival_ticks;
    first = std::min(first, ticks);
    if (ticks > last) {
      last = ticks;
      latest = peer;
    }
  }
  ++times_last_[static_cast<size_t>(latest)];
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank() && !awaits(op, peer)) continue;
    const uint64_t late = group_.view.call(peer, op.sequence).arrival_ticks - first;
    ++lateness_[static_cast<size_t>(peer)][static_cast<size_t>(std::bit_width(late | 1) - 1)];
  }
}

void SharedCommunicator::move_data(Op& op) {
  if (op.call.op == CollectiveOp::kBarrier) return;
  const int64_t elements =
      op.call.op == CollectiveOp::kAllToAllV ? longest_block(op) : op.call.count;
  move_range(op, 0, elements, 0);
}

void SharedCommunicator::move_range(Op& op, int64_t begin, int64_t end, int64_t stage_stride) {
  const CollectiveCall& call = op.call;
  const bool uneven = call.op == CollectiveOp::kAllToAllV;
  const int64_t element = size_bytes(call.dtype);
  for (int peer = 0; peer < size(); ++peer) {
    const auto p = static_cast<size_t>(peer);
    if (peer != rank() && !awaits(op, peer)) continue;
    const CallLine& line = group_.view.call(peer, op.sequence);
    in_[p] = {.base = domain_.address(line.in), .stride = call.count};
    out_[p] = {.base = domain_.address(line.out), .stride = call.count};
    if (op.mailed) {
      in_[p].base = group_.view.mail(peer, line.mail_slot);
      if (peer == rank()) out_[p].base = static_cast<std::byte*>(call.out);
    }
    if (uneven) {
      const int64_t* sent = group_.view.counts(peer, op.sequence);
      in_[p].base += std::accumulate(sent, sent + rank(), int64_t{0}) * element;
      in_[p].stride = 0;
      lengths_[p] = sent[rank()];
    }
    std::byte* stage = domain_.address(group_.view.member(peer).stage);
    if (line.flags & kForeignIn) in_[p] = {stage, stage_stride, begin};
    if (line.flags & kForeignOut) out_[p] = {stage + kStageBytes, stage_stride, begin};
  }
  const CallLine& mine = group_.view.call(rank(), op.sequence);
  if (uneven && !(mine.flags & kForeignOut)) {
    std::exclusive_scan(call.receive_counts.begin(), call.receive_counts.end(), offsets_.begin(),
                        int64_t{0});
    out_[static_cast<size_t>(rank())].offsets = offsets_.data();
  }
  Movement movement{.op = call.op,
                    .reduce = call.reduce,
                    .dtype = call.dtype,
                    .root = call.root,
                    .rank = rank(),
                    .one_shot = op.mailed,
                    .any_in_place = op.any_in_place,
                    .begin = begin,
                    .end = end,
                    .in = in_,
                    .out = out_,
                    .sources = sources_,
                    .targets = targets_};
  if (uneven) movement.lengths = lengths_;
  move(movement, group_.view);
}

// Whose buffers do peers use after this rank has moved its part?
bool SharedCommunicator::leave(const Op& op, Blocker* blocker) {
  if (op.mailed || op.staged || op.scheduled) return true;
  const CollectiveOp kind = op.call.op;
  const bool root_only = kind == CollectiveOp::kBroadcast || kind == CollectiveOp::kScatter ||
                         kind == CollectiveOp::kGather;
  if (root_only && rank() != op.call.root) return true;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    Counter& moved = group_.view.member(peer).moved;
    const Blocker wanted{&moved.value, static_cast<uint32_t>(op.sequence), &moved.sleepers, peer,
                         has_arrived(peer, op.sequence)};
    if (reached(wanted)) continue;
    if (blocker != nullptr && blocker->word == nullptr) *blocker = wanted;
    return false;
  }
  return true;
}

void SharedCommunicator::look_for_trouble(const Blocker& blocker,
                                          std::chrono::milliseconds waited) {
  Liveness* const liveness = domain_.liveness();
  const int peer = world_rank(blocker.peer);
  if (domain_.block().abort_flag.raised()) {
    if (reached(blocker)) return;
    abandon();
    throw_aborted();
  }
  if (liveness != nullptr) {
    std::optional<std::string> gone = liveness->gone(peer);
    if (reached(blocker)) return;
    // The one waited for may be waiting for a dead one itself.
    if (!gone) gone = liveness->lost();
    if (gone) {
      raise_abort(domain_.block(), *gone);
      abandon();
      throw_aborted();
    }
  }
  const Patience& patience = domain_.patience();
  if (!warned_ && waited >= patience.slow_after) {
    warned_ = true;
    domain_.warn(fmt::format("group {}: {} is late: rank {} has waited {:.1f} s in {}", name_,
                             domain_.describe(peer), world_rank(rank()), seconds(waited),
                             waiting_text()));
  }
  const std::chrono::milliseconds limit =
      blocker.leaving ? std::max(patience.leaving, patience.timeout) : patience.timeout;
  if (waited < limit || reached(blocker)) return;
  const std::string text = fmt::format("rank {} waited {:.3f} s in {} for {}", world_rank(rank()),
                                       seconds(limit), waiting_text(), absent_ranks(blocker));
  raise_abort(domain_.block(), fmt::format("group {}: {}", name_, text));
  abandon();
  throw CommError(fmt::format("group {}: {}", name_, text));
}

std::string SharedCommunicator::waiting_text() const {
  uint64_t sequence = 0;
  if (completed_ < issued_) return describe(op(completed_ + 1).call, completed_ + 1);
  const CollectiveCall* message = messages_.oldest(sequence);
  return message == nullptr ? "nothing" : describe(*message, sequence);
}

std::string SharedCommunicator::absent_ranks(const Blocker& blocker) const {
  std::string text;
  const auto add = [&](int peer, const std::string& state) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", domain_.describe(world_rank(peer)),
                        state);
  };
  const auto state_of = [&](int peer) {
    const Member& member = group_.view.member(peer);
    if (member.joined.load() == 0) return std::string("never joined");
    return fmt::format("made {} calls", member.issued.load(std::memory_order_relaxed));
  };
  if (!blocker.leaving && completed_ < issued_) {
    const Op& waiting = op(completed_ + 1);
    const bool moved = moved_ >= waiting.sequence;  // then all others are waited for
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank() || !(moved || awaits(waiting, peer))) continue;
      if (!has_arrived(peer, waiting.sequence)) add(peer, state_of(peer));
    }
  }
  if (text.empty()) {
    add(blocker.peer, blocker.leaving ? "arrived, and has not finished" : state_of(blocker.peer));
  }
  return text;
}

// After an abort, before buffers go back to the caller: this rank moves nothing any more, and those
// that are moving one of its calls are waited for.
void SharedCommunicator::abandon() {
  const Patience& patience = domain_.patience();
  messages_.take_back(patience.leaving);
  schedule_messages_.take_back(patience.leaving);
  group_.view.member(rank()).moving.store(static_cast<uint32_t>(moved_));
  const auto deadline = std::chrono::steady_clock::now() + patience.leaving;
  Liveness* const liveness = domain_.liveness();
  for (uint64_t sequence = completed_ + 1; sequence <= published_; ++sequence) {
    if (op(sequence).mailed || op(sequence).staged || op(sequence).scheduled) continue;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      Member& member = group_.view.member(peer);
      const auto target = static_cast<uint32_t>(sequence);
      const Blocker moving{&member.moving, target, nullptr, peer, true};
      const Blocker moved{&member.moved.value, target, &member.moved.sleepers, peer, true};
      while (reached(moving) && !reached(moved)) {
        if (liveness != nullptr && liveness->gone(world_rank(peer))) break;
        if (std::chrono::steady_clock::now() > deadline) break;
        Waiter(true).sleep(moved, std::chrono::milliseconds(1));
      }
    }
  }
}

void SharedCommunicator::throw_aborted() {
  throw CommError(fmt::format("group {}: rank {} was waiting in {} when the world was aborted: {}",
                              name_, world_rank(rank()), waiting_text(),
                              abort_reason(domain_.block())));
}

void SharedCommunicator::fail(const std::string& text) {
  const std::string message = fmt::format("group {}: {}", name_, text);
  raise_abort(domain_.block(), message);
  abandon();
  throw CommError(message);
}

void SharedCommunicator::validate(const CollectiveCall& call) {
  const std::string wrong = what_is_wrong(call, rank(), size());
  if (wrong.empty()) return;
  fail(
      fmt::format("rank {} called {}: {}", world_rank(rank()), describe(call, issued_ + 1), wrong));
}

void SharedCommunicator::record(const CollectiveCall& call, uint64_t sequence) {
  RankBlock& block = domain_.block().rank[endpoint_.rank()];
  const uint64_t made = block.num_records.fetch_add(1, std::memory_order_release);
  CallRecord& record = block.records[made % kRecords];
  constexpr auto kRelaxed = std::memory_order_relaxed;
  record.sequence.store(sequence, kRelaxed);
  record.count.store(static_cast<uint64_t>(call.count), kRelaxed);
  record.ticks.store(__rdtsc(), kRelaxed);
  record.kind.store(static_cast<uint64_t>(group_.index) | static_cast<uint64_t>(call.op) << 16 |
                        static_cast<uint64_t>(call.reduce) << 32 |
                        static_cast<uint64_t>(call.dtype) << 48,
                    kRelaxed);
  record.detail.store(static_cast<uint32_t>(call.root) | static_cast<uint64_t>(call.tag) << 32,
                      kRelaxed);
}

std::unique_ptr<Communicator> SharedCommunicator::split(int color, int key,
                                                        const std::string& name) {
  std::vector<int64_t> all(static_cast<size_t>(2 * size()));
  const std::array<int64_t, 2> mine = {color, key};
  all_gather(mine.data(), all.data(), 2, DType::kI64);
  const std::string unique = fmt::format("{}/{}#{}:{}", key_, name, ++num_splits_, color);
  if (color < 0) return nullptr;
  std::vector<std::pair<int64_t, int>> chosen;  // key, rank
  for (int peer = 0; peer < size(); ++peer) {
    const auto p = static_cast<size_t>(2 * peer);
    if (all[p] == color) chosen.emplace_back(all[p + 1], peer);
  }
  std::sort(chosen.begin(), chosen.end());
  std::vector<int> world_ranks;
  for (const auto& [order, peer] : chosen) world_ranks.push_back(world_rank(peer));
  return endpoint_.join_as(name, unique, world_ranks);
}

std::vector<Arrival> SharedCommunicator::arrivals() const {
  const double us =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - first_time_)
          .count();
  const double ticks_per_us = std::max(1.0, static_cast<double>(__rdtsc() - first_ticks_) / us);
  std::vector<Arrival> list;
  for (int peer = 0; peer < size(); ++peer) {
    const auto& buckets = lateness_[static_cast<size_t>(peer)];
    const int64_t total = std::accumulate(buckets.begin(), buckets.end(), int64_t{0});
    const auto quantile = [&](double q) {
      int64_t seen = 0;
      for (size_t b = 0; b < buckets.size(); ++b) {
        seen += buckets[b];
        if (static_cast<double>(seen) >= q * static_cast<double>(total) && seen > 0) {
          return b == 0 ? 0.0 : std::ldexp(1.0, static_cast<int>(b)) / ticks_per_us;
        }
      }
      return 0.0;
    };
    list.push_back(
        {world_rank(peer), times_last_[static_cast<size_t>(peer)], quantile(0.5), quantile(0.99)});
  }
  return list;
}

TrafficCounters SharedCommunicator::counters() const {
  TrafficCounters counters;
  for (size_t i = 0; i < counters.size(); ++i) {
    counters[i].calls = calls_[i];
    for (int reader = 0; reader < size(); ++reader) {
      counters[i].bytes_sent += group_.view.traffic(reader, rank())[i];
    }
  }
  return counters;
}

}  // namespace tessera::shared
