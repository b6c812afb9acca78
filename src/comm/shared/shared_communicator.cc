#include "comm/shared/shared_communicator.h"

#include <immintrin.h>

#include <algorithm>
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

size_t index(CollectiveOp op) { return static_cast<size_t>(op); }

}  // namespace

SharedCommunicator::SharedCommunicator(Endpoint& endpoint, std::string name, const std::string& key,
                                       std::span<const int> members)
    : endpoint_(endpoint),
      domain_(endpoint.domain()),
      name_(std::move(name)),
      key_(key),
      members_(members.begin(), members.end()),
      group_(domain_.enter_group(name_, key, members_, endpoint.rank())),
      device_(domain_.device() != nullptr ? domain_.device()->make_mover() : nullptr),
      messages_(domain_, group_, device_.get(), 0),
      schedule_messages_(domain_, group_, device_.get(), 1),
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
  const bool on_device = lies_on_device(call);
  if (is_point_to_point(call.op)) {
    while (true) {
      if (const std::optional<uint64_t> ticket = messages_.issue(call, call.op, on_device)) {
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
            .on_device = on_device,
            .mailed = !on_device && fits_mail(call, size()),
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
  line.flags = memory_flag(op);
  const int64_t in_bytes = input_bytes(call, rank(), size());
  const int64_t out_bytes = output_bytes(call, rank(), size());
  if (op.mailed) {
    line.flags |= kMailed;
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
    if (!op.on_device && may_be_helped(call)) line.flags |= kHelped;
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
    op.any_flags |= line.flags;
    op.all_flags &= line.flags;
  }
  const uint8_t mine = group_.view.call(rank(), op.sequence).flags;
  op.any_flags |= mine;
  op.all_flags &= mine;
  op.staged = (op.any_flags & (kForeignIn | kForeignOut)) != 0;
  op.any_in_place = (op.any_flags & kInPlace) != 0;
  op.helped = !op.staged && (op.all_flags & kHelped) != 0;
  check_same_memory(op);
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
                    .device = op.on_device ? device_.get() : nullptr,
                    .counts_as_mail = op.on_device && fits_mail(call, size()),
                    .begin = begin,
                    .end = end,
                    .in = in_,
                    .out = out_,
                    .sources = sources_,
                    .targets = targets_};
  if (uneven) movement.lengths = lengths_;
  if (op.helped) {
    move_parts(op, movement);
  } else if (op.on_device) {
    guard_device(call, op.sequence, [&] { move(movement, group_.view); });
    finish_on_device(op);
  } else {
    move(movement, group_.view);
  }
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
    if (reached(wanted) || (op.helped && !holds_parts(op, peer))) continue;
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
