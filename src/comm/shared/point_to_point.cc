#include "comm/shared/point_to_point.h"

#include <algorithm>
#include <cstring>

namespace tessera::shared {

PointToPoint::PointToPoint(const Domain& domain, const Domain::Group& group, DeviceMover* device,
                           int channel)
    : domain_(domain), group_(group), device_(device), channel_(channel) {
  const auto size = static_cast<size_t>(group.view.size());
  order_.reserve(kInFlight);
  parts_sent_.resize(size);
  parts_received_.resize(size);
  num_sends_.resize(size);
  num_receives_.resize(size);
  send_busy_.resize(size);
  receive_busy_.resize(size);
}

std::optional<uint64_t> PointToPoint::issue(const CollectiveCall& call, CollectiveOp counted_as,
                                            bool on_device) {
  if (num_active_ == kInFlight) return std::nullopt;
  const auto free = std::find_if(messages_.begin(), messages_.end(),
                                 [](const Message& m) { return m.ticket == 0; });
  const auto peer = static_cast<size_t>(call.root);
  *free = Message{.call = call, .counted_as = counted_as, .ticket = ++last_ticket_};
  free->on_device = on_device && call.count > 0;
  free->sequence = call.op == CollectiveOp::kSend ? ++num_sends_[peer] : ++num_receives_[peer];
  order_.push_back(static_cast<uint64_t>(free - messages_.begin()));
  ++num_active_;
  return free->ticket;
}

bool PointToPoint::done(uint64_t ticket) const {
  return std::none_of(messages_.begin(), messages_.end(),
                      [&](const Message& m) { return m.ticket == ticket; });
}

const CollectiveCall* PointToPoint::oldest(uint64_t& sequence) const {
  if (order_.empty()) return nullptr;
  const Message& message = messages_[order_.front()];
  sequence = message.sequence;
  return &message.call;
}

std::optional<std::string> PointToPoint::advance(Blocker* blocker, std::span<const int> members) {
  if (num_active_ == 0) return std::nullopt;
  std::fill(send_busy_.begin(), send_busy_.end(), 0);
  std::fill(receive_busy_.begin(), receive_busy_.end(), 0);
  std::optional<std::string> wrong;
  for (const uint64_t place : order_) {
    Message& message = messages_[place];
    const bool sends = message.call.op == CollectiveOp::kSend;
    const auto peer = static_cast<size_t>(message.call.root);
    char& busy = sends ? send_busy_[peer] : receive_busy_[peer];
    if (busy != 0) continue;
    const bool finished =
        sends ? advance_send(message, blocker) : advance_receive(message, blocker, members, wrong);
    if (wrong) return wrong;
    if (finished) {
      finish(message);
    } else {
      busy = message.announced ? 0 : 1;
    }
  }
  std::erase_if(order_, [&](uint64_t place) { return messages_[place].ticket == 0; });
  return std::nullopt;
}

void PointToPoint::take_back(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (const uint64_t place : order_) {
    const Message& message = messages_[place];
    if (message.call.op == CollectiveOp::kReceive) {
      Pair& from = group_.view.pair(channel_, message.call.root, group_.rank);
      if (message.last_part != 0)
        announce(from.taken.value, message.last_part, from.taken.sleepers);
      continue;
    }
    if (!message.announced) continue;
    Pair& pair = group_.view.pair(channel_, group_.rank, message.call.root);
    PartLine& line = pair.parts[message.last_part % kPartSlots];
    uint32_t unclaimed = kUnclaimed;
    if (line.mailed || line.claim.compare_exchange_strong(unclaimed, kTakenBack)) continue;
    const Blocker taken{&pair.taken.value, message.last_part, &pair.taken.sleepers, 0, true};
    while (!reached(taken) && std::chrono::steady_clock::now() < deadline) {
      Waiter(true).sleep(taken, std::chrono::milliseconds(1));
    }
  }
}

void PointToPoint::finish(Message& message) {
  message.ticket = 0;
  --num_active_;
}

bool PointToPoint::advance_send(Message& message, Blocker* blocker) {
  const CollectiveCall& call = message.call;
  const int to = call.root;
  const int64_t total = call.count * size_bytes(call.dtype);
  const bool direct =
      message.on_device || (total > kPartBytes && domain_.reachable(call.in, total));
  Pair& pair = group_.view.pair(channel_, group_.rank, to);
  uint32_t& sent = parts_sent_[static_cast<size_t>(to)];
  const auto blocked_until_taken = [&](uint32_t part) {
    const Blocker wanted{&pair.taken.value, part, &pair.taken.sleepers, to, false};
    if (reached(wanted)) return false;
    if (blocker != nullptr && blocker->word == nullptr) *blocker = wanted;
    return true;
  };
  while (!message.announced) {
    const uint32_t part = sent + 1;
    if (part > kPartSlots && blocked_until_taken(part - kPartSlots)) return false;
    const auto slot = static_cast<int>(part % kPartSlots);
    PartLine& line = pair.parts[slot];
    const int64_t bytes = direct ? total : std::min(kPartBytes, total - message.bytes_done);
    const auto* data = static_cast<const std::byte*>(call.in) + message.bytes_done;
    line.dtype = call.dtype;
    line.tag = call.tag;
    line.count = call.count;
    line.part_bytes = bytes;
    line.mailed = !direct;
    line.on_device = message.on_device;
    line.data = direct ? domain_.reference(data) : 0;
    line.claim.store(kUnclaimed, std::memory_order_relaxed);
    if (!direct && bytes > 0) {
      std::memcpy(group_.view.part(channel_, group_.rank, to, slot), data,
                  static_cast<size_t>(bytes));
    }
    if (to != group_.rank) {
      group_.view.count_traffic(group_.rank, group_.rank, message.counted_as, bytes);
    }
    sent = part;
    message.last_part = part;
    message.bytes_done += bytes;
    message.announced = message.bytes_done == total;
    announce(line.sent, part, line.sleepers);
  }
  return !direct || !blocked_until_taken(message.last_part);
}

std::string PointToPoint::misfit(const Message& message, const PartLine& line,
                                 std::span<const int> members) const {
  const CollectiveCall& call = message.call;
  const int sender = members[static_cast<size_t>(call.root)];
  const int receiver = members[static_cast<size_t>(group_.rank)];
  if (line.count != call.count || line.dtype != call.dtype || line.tag != call.tag) {
    const CollectiveCall theirs{.op = CollectiveOp::kSend,
                                .dtype = line.dtype,
                                .root = group_.rank,
                                .tag = line.tag,
                                .count = line.count};
    return fmt::format("rank {} called {} while rank {} called {}", sender,
                       describe(theirs, message.sequence), receiver,
                       describe(call, message.sequence));
  }
  if (line.on_device == message.on_device) return "";
  const std::string device = domain_.device()->name();
  return fmt::format("rank {} sends memory of {} while rank {} called {} with memory of {}", sender,
                     line.on_device ? device : "the host", receiver,
                     describe(call, message.sequence), line.on_device ? "the host" : device);
}

void PointToPoint::copy_on_device(const Message& message, std::byte* to, const std::byte* from,
                                  int64_t bytes, std::span<const int> members,
                                  std::optional<std::string>& wrong) {
  try {
    device_->copy(to, from, bytes);
    device_->finish(domain_.block().abort_flag, domain_.patience().timeout);
  } catch (const Error& error) {
    wrong = fmt::format("rank {} in {}: {}", members[static_cast<size_t>(group_.rank)],
                        describe(message.call, message.sequence), error.what());
  }
}

bool PointToPoint::advance_receive(Message& message, Blocker* blocker, std::span<const int> members,
                                   std::optional<std::string>& wrong) {
  const CollectiveCall& call = message.call;
  const int from = call.root;
  const int64_t total = call.count * size_bytes(call.dtype);
  Pair& pair = group_.view.pair(channel_, from, group_.rank);
  uint32_t& received = parts_received_[static_cast<size_t>(from)];
  while (!message.begun || message.bytes_done < total) {
    const uint32_t part = received + 1;
    const auto slot = static_cast<int>(part % kPartSlots);
    PartLine& line = pair.parts[slot];
    const Blocker wanted{&line.sent, part, &line.sleepers, from, false};
    if (!reached(wanted)) {
      if (blocker != nullptr && blocker->word == nullptr) *blocker = wanted;
      return false;
    }
    if (std::string misfits = misfit(message, line, members); !misfits.empty()) {
      wrong = std::move(misfits);
      return false;
    }
    uint32_t unclaimed = kUnclaimed;
    if (!line.mailed && !line.claim.compare_exchange_strong(unclaimed, kRead)) {
      return false;  // the world is aborted
    }
    const std::byte* data = line.mailed ? group_.view.part(channel_, from, group_.rank, slot)
                                        : domain_.address(line.data);
    std::byte* to = static_cast<std::byte*>(call.out) + message.bytes_done;
    if (message.on_device) {
      message.last_part = part;
      copy_on_device(message, to, data, line.part_bytes, members, wrong);
      if (wrong) return false;
      message.last_part = 0;
    } else if (line.part_bytes > 0) {
      std::memcpy(to, data, static_cast<size_t>(line.part_bytes));
    }
    message.begun = true;
    message.bytes_done += line.part_bytes;
    received = part;
    announce(pair.taken.value, part, pair.taken.sleepers);
  }
  return true;
}

}  // namespace tessera::shared
