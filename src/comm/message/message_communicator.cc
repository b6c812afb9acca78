#include "comm/message/message_communicator.h"

#include <immintrin.h>
#include <sched.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/hash.h"
#include "comm/shared/call_shape.h"

namespace tessera::message {
namespace {

// Ranks that wait for data only give those that know who is absent this much time to say so.
constexpr std::chrono::milliseconds kGrace{1'000};

double seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1e3; }

uint64_t group_id(const std::string& key, std::span<const int> members) {
  Hasher hasher;
  hasher.add(key);
  for (const int member : members) hasher.add(member);
  return hasher.value();
}

int position_of(std::span<const int> members, int world_rank) {
  return static_cast<int>(std::find(members.begin(), members.end(), world_rank) - members.begin());
}

// How a thread passes the time until there may be something new: it spins a little, then lets
// others run, then sleeps; and starts over when something has happened.
class Backoff {
 public:
  void pause(uint64_t activity) {
    if (activity != seen_) {
      seen_ = activity;
      idle_ = 0;
    }
    if (++idle_ <= kSpins) {
      _mm_pause();
    } else if (idle_ <= kYields) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(kSleep);
    }
  }

 private:
  // Ranks may outnumber cores: a long spin only delays the peer it waits for.
  static constexpr int kSpins = 20;
  static constexpr int kYields = 20'000;  // some 20 ms
  static constexpr std::chrono::microseconds kSleep{100};
  uint64_t seen_ = 0;
  int idle_ = 0;
};

// For as long as it lives somebody may be told for whom this rank waits.
class SaidWait {
 public:
  explicit SaidWait(CallWatcher* watcher) : watcher_(watcher) {}
  ~SaidWait() {
    if (said_) watcher_->waits_for(-1);
  }
  SaidWait(const SaidWait&) = delete;
  SaidWait& operator=(const SaidWait&) = delete;
  // Whether it is time to say (again) for whom. Short waits are nobody's business.
  bool is_due(std::chrono::milliseconds waited) {
    if (watcher_ == nullptr || waited < next_) return false;
    next_ = waited + kSayEvery;
    return true;
  }
  void say(int world_rank) {
    said_ = true;
    watcher_->waits_for(world_rank);
  }

 private:
  static constexpr std::chrono::milliseconds kShort{20};
  static constexpr std::chrono::milliseconds kSayEvery{80};
  CallWatcher* watcher_;
  std::chrono::milliseconds next_ = kShort;
  bool said_ = false;
};

}  // namespace

MessageCommunicator::MessageCommunicator(MessageEngine& engine, std::string name, std::string key,
                                         std::span<const int> members)
    : group_{.engine = engine,
             .name = std::move(name),
             .members = {members.begin(), members.end()},
             .rank = position_of(members, engine.transport().rank()),
             .id = group_id(key, members),
             .arrivals = ArrivalLog(static_cast<int>(members.size()))},
      key_(std::move(key)),
      num_sends_(members.size()),
      num_receives_(members.size()),
      last_heard_(members.size()) {
  for (const int member : members) nodes_.push_back(engine.transport().node_of(member));
  early_headers_.reserve(16 * members.size());  // how far peers get ahead is a matter of timing
  const auto lock = engine.lock();
  require(engine.add(group_.id, *this), "group {}: rank {} joined before; every member joins once",
          group_.name, engine.transport().rank());
}

MessageCommunicator::~MessageCommunicator() {
  const auto lock = group_.engine.lock();
  for (Slot* slot : running_) slot->call.cancel();
  group_.engine.remove(group_.id);
}

std::chrono::milliseconds MessageCommunicator::timeout() const {
  return group_.engine.options().timeout;
}

Work MessageCommunicator::start(const CollectiveCall& call) {
  const auto lock = group_.engine.lock();
  return {this, begin(call)};
}

void MessageCommunicator::run(const CollectiveCall& call) {
  uint64_t ticket = 0;
  {
    const auto lock = group_.engine.lock();
    ticket = begin(call);
  }
  (void)wait(ticket, std::chrono::milliseconds(-1));
}

uint64_t MessageCommunicator::begin(const CollectiveCall& call) {
  const Algorithm algorithm = check(call);
  const uint64_t sequence = ++counter_of(call);
  const CallHeader header = make_header(call, algorithm, group_.id, sequence);
  if (!is_point_to_point(call.op)) recent_calls_[sequence % kRecentCalls] = header;
  ++group_.counters[static_cast<size_t>(call.op)].calls;
  Slot& slot = free_slot();
  try {
    slot.call.begin(call, header, recipes_.find(request_for(call, algorithm)));
    take_early_headers(slot.call);
    slot.call.advance();
  } catch (...) {
    slot.call.cancel();
    throw;
  }
  if (CallWatcher* const watcher = group_.engine.options().watcher) {
    watcher->begins(call, sequence, name());
  }
  slot.ticket = ++last_ticket_;
  slot.warned = false;
  running_.push_back(&slot);
  return slot.ticket;
}

Algorithm MessageCommunicator::check(const CollectiveCall& call) {
  const int world_rank = group_.world_rank(rank());
  const auto text = [&] { return tessera::describe(call, counter_of(call) + 1); };
  CollectiveCall shape = call;
  shape.algorithm = Algorithm::kAuto;  // what is right for shared memory is not asked here
  std::string wrong = shared::what_is_wrong(shape, rank(), size());
  const bool asked = call.algorithm != Algorithm::kAuto;
  if (wrong.empty() && is_point_to_point(call.op) && call.root == rank()) {
    wrong = "a rank has no messages for itself: copy the data";
  }
  if (wrong.empty() && asked && !supports(call.op, call.algorithm)) {
    wrong = what_is_unsupported(call.op, call.algorithm);
  }
  const bool tree = reduces(call.op) && along_tree(call.reduce);
  if (wrong.empty() && asked && tree && !promises_rank_order(call.algorithm)) {
    wrong = fmt::format("{} adds in an order of its own: use direct", name_of(call.algorithm));
  }
  if (!wrong.empty()) group_.fail(fmt::format("rank {} called {}: {}", world_rank, text(), wrong));
  const Transport& transport = group_.engine.transport();
  if (transport.abort_flag().raised()) {
    throw CommError(fmt::format("group {}: rank {} called {} after the world was aborted: {}",
                                name(), world_rank, text(), transport.abort_reason()));
  }
  if (asked) return call.algorithm;
  if (tree) return Algorithm::kDirect;
  return group_.engine.options().selection.choose(call.op, call.count * size_bytes(call.dtype),
                                                  size());
}

uint64_t& MessageCommunicator::counter_of(const CollectiveCall& call) {
  const auto peer = static_cast<size_t>(std::clamp(call.root, 0, size() - 1));
  if (call.op == CollectiveOp::kSend) return num_sends_[peer];
  if (call.op == CollectiveOp::kReceive) return num_receives_[peer];
  return num_collectives_;
}

ScheduleRequest MessageCommunicator::request_for(const CollectiveCall& call,
                                                 Algorithm algorithm) const {
  return {.op = call.op,
          .algorithm = algorithm,
          .ranks = size(),
          .rank = rank(),
          .root = call.root,
          .count = call.count,
          .element_bytes = size_bytes(call.dtype),
          .in_place = call.op == CollectiveOp::kAllToAll && call.in == call.out,
          .nodes = nodes_,
          .send_counts = call.send_counts,
          .receive_counts = call.receive_counts};
}

MessageCommunicator::Slot& MessageCommunicator::free_slot() {
  for (const std::unique_ptr<Slot>& slot : slots_) {
    if (slot->ticket == 0) return *slot;
  }
  slots_.push_back(std::make_unique<Slot>(group_));
  running_.reserve(slots_.size());
  return *slots_.back();
}

MessageCommunicator::Slot& MessageCommunicator::slot(uint64_t ticket) {
  for (const std::unique_ptr<Slot>& slot : slots_) {
    if (slot->ticket == ticket) return *slot;
  }
  TESSERA_CHECK(false, "no call with ticket {}", ticket);
}

void MessageCommunicator::release(Slot& slot) {
  slot.ticket = 0;
  std::erase(running_, &slot);
}

// ---- headers

RunningCall* MessageCommunicator::find_running(int rank, const CallHeader& header) {
  const bool message = header.op == CollectiveOp::kSend;
  for (Slot* slot : running_) {
    const CallHeader& mine = slot->call.header();
    if (mine.sequence != header.sequence || mine.op == CollectiveOp::kSend) continue;
    const bool receives = mine.op == CollectiveOp::kReceive;
    if (receives == message && (!receives || mine.root == rank)) return &slot->call;
  }
  return nullptr;
}

void MessageCommunicator::take_header(int world_rank, const CallHeader& header) {
  const int rank = position_of(group_.members, world_rank);
  TESSERA_CHECK(rank < size(), "rank {} is not in group {}", world_rank, name());
  const bool message = header.op == CollectiveOp::kSend;
  if (!message) {
    uint64_t& last = last_heard_[static_cast<size_t>(rank)];
    last = std::max(last, header.sequence);
  }
  if (RunningCall* call = find_running(rank, header)) return call->take_header(rank, header);
  if (!message && header.sequence <= num_collectives_) return check_late_header(rank, header);
  early_headers_.push_back({rank, header});
}

// A call that this rank was done with expected no such header: so it was another call.
void MessageCommunicator::check_late_header(int rank, const CallHeader& header) {
  const CallHeader& mine = recent_calls_[header.sequence % kRecentCalls];
  if (mine.sequence != header.sequence) return;
  group_.fail(disagreement(group_.world_rank(group_.rank), mine, group_.world_rank(rank), header));
}

void MessageCommunicator::take_early_headers(RunningCall& call) {
  const CallHeader& mine = call.header();
  if (mine.op == CollectiveOp::kSend) return;
  const bool receives = mine.op == CollectiveOp::kReceive;
  const auto belongs = [&](const EarlyHeader& early) {
    const bool message = early.header.op == CollectiveOp::kSend;
    return early.header.sequence == mine.sequence && receives == message &&
           (!receives || early.rank == mine.root);
  };
  for (size_t i = 0; i < early_headers_.size();) {
    if (!belongs(early_headers_[i])) {
      ++i;
      continue;
    }
    const EarlyHeader early = early_headers_[i];
    early_headers_.erase(early_headers_.begin() + static_cast<int64_t>(i));
    call.take_header(early.rank, early.header);
  }
}

// ---- waiting

void MessageCommunicator::advance() {
  for (Slot* slot : running_) slot->call.advance();
}

bool MessageCommunicator::test(uint64_t ticket) {
  const auto lock = group_.engine.lock();
  return poll(slot(ticket), std::chrono::milliseconds(0));
}

bool MessageCommunicator::wait(uint64_t ticket, std::chrono::milliseconds time) {
  const Clock::time_point begin = Clock::now();
  Backoff backoff;
  SaidWait said(group_.engine.options().watcher);
  while (true) {
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
    uint64_t activity = 0;
    {
      const auto lock = group_.engine.lock();
      if (poll(slot(ticket), waited)) return true;
      activity = group_.engine.activity();
    }
    if (time.count() >= 0 && waited >= time) return false;
    if (said.is_due(waited)) said.say(awaited_rank(ticket));
    backoff.pause(activity);
  }
}

int MessageCommunicator::awaited_rank(uint64_t ticket) {
  const auto lock = group_.engine.lock();
  const std::vector<int> awaited = slot(ticket).call.awaited();
  return awaited.empty() ? -1 : group_.world_rank(awaited.front());
}

bool MessageCommunicator::poll(Slot& slot, std::chrono::milliseconds waited) {
  try {
    if (!slot.call.done()) {
      if (!group_.engine.progress()) throw_aborted(slot.call);
      if (!slot.call.done()) {
        look_for_trouble(slot, waited);
        return false;
      }
    }
  } catch (...) {
    slot.call.cancel();
    release(slot);
    throw;
  }
  release(slot);
  return true;
}

void MessageCommunicator::look_for_trouble(Slot& slot, std::chrono::milliseconds waited) {
  const RunningCall& call = slot.call;
  const MessageWorldOptions& options = group_.engine.options();
  const int world_rank = group_.world_rank(rank());
  for (int peer = 0; peer < size() && !call.hears_from_all(); ++peer) {
    if (!call.hears_from(peer) && group_.engine.has_left(group_.world_rank(peer))) {
      group_.fail(fmt::format("rank {} waits in {} for {}, which has left", world_rank,
                              describe(call.header()), group_.describe_member(peer)));
    }
  }
  if (!slot.warned && waited >= options.slow_after) {
    slot.warned = true;
    if (options.on_warning) {
      options.on_warning(fmt::format("group {}: rank {} has waited {:.1f} s in {} for {}", name(),
                                     world_rank, seconds(waited), describe(call.header()),
                                     describe_awaited(call)));
    }
  }
  // Whoever knows which rank is absent speaks first; the others only wait for its data.
  const std::chrono::milliseconds grace =
      call.hears_from_all() ? std::min(options.timeout / 2, kGrace) : std::chrono::milliseconds(0);
  if (waited < options.timeout + grace) return;
  group_.fail(fmt::format("rank {} waited {:.3f} s in {} for {}", world_rank, seconds(waited),
                          describe(call.header()), describe_awaited(call)));
}

std::string MessageCommunicator::describe_awaited(const RunningCall& call) const {
  std::string text;
  for (const int peer : call.awaited()) {
    const uint64_t heard = last_heard_[static_cast<size_t>(peer)];
    std::string state = "arrived, and has not finished";
    if (!call.hears_from_all()) {
      state = heard == 0 ? "never heard of" : fmt::format("last heard of in call #{}", heard);
    }
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", group_.describe_member(peer), state);
  }
  return text;
}

void MessageCommunicator::throw_aborted(const RunningCall& call) const {
  throw CommError(fmt::format("group {}: rank {} was waiting in {} when the world was aborted: {}",
                              name(), group_.world_rank(rank()), describe(call.header()),
                              group_.engine.transport().abort_reason()));
}

// ---- groups and figures

std::unique_ptr<Communicator> MessageCommunicator::split(int color, int key,
                                                         const std::string& name) {
  const std::vector<int> chosen = exchange_colors(*this, color, key);
  const std::string unique = fmt::format("{}/{}#{}:{}", key_, name, ++num_splits_, color);
  if (chosen.empty()) return nullptr;
  return std::make_unique<MessageCommunicator>(group_.engine, name, unique, chosen);
}

TrafficCounters MessageCommunicator::counters() const {
  const auto lock = group_.engine.lock();
  return group_.counters;
}

std::vector<Arrival> MessageCommunicator::arrivals() const {
  const auto lock = group_.engine.lock();
  return group_.arrivals.summary(group_.members);
}

}  // namespace tessera::message
