// What a rank that waits looks for, what it says, and how it goes.
#include <algorithm>

#include "comm/shared/shared_communicator.h"

namespace tessera::shared {
namespace {

double seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1e3; }

}  // namespace

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
  if (completed_ < issued_) return describe(at(completed_ + 1).call, completed_ + 1);
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
    const PendingCall& waiting = at(completed_ + 1);
    const bool moved = moved_ >= waiting.sequence;  // then all others are waited for
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank() || !(moved || awaits(waiting, rank(), peer))) continue;
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
  ways_.take_back(patience.leaving);
  group_.view.member(rank()).moving.store(static_cast<uint32_t>(moved_));
  const auto deadline = std::chrono::steady_clock::now() + patience.leaving;
  Liveness* const liveness = domain_.liveness();
  for (uint64_t sequence = completed_ + 1; sequence <= published_; ++sequence) {
    if (at(sequence).leaves_at_once()) continue;
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

}  // namespace tessera::shared
