// A group of ranks that exchange data straight between their buffers, be they threads or processes.
//
// A collective goes through four stages on every rank, and none of them blocks:
//   issue   publish the call in this rank's line (small contributions are copied into its mailbox)
//   arrive  every peer has published; their fingerprints agree with mine
//   move    copy and reduce this rank's part (see ways.h); publish that it is done
//   leave   every peer that uses my buffers has moved
// Collectives of a group move in order. A mailed one has no buffers to protect and does not leave.
// Buffers in the memory of a device are never mailed, staged or helped with (on_device.h): they are
// read straight from the peers, and the stage `move` waits for the device.
//
// The communicator keeps order, agreement, waiting and failure; how data moves is up to a Way.
//
// How a failing rank goes without pulling its buffers from under a peer: a rank that has seen all
// arrive announces that it moves, then looks at the abort flag, then moves. After an abort nobody
// begins to move, so a rank that leaves waits only for those that have announced it.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/shared/domain.h"
#include "comm/shared/figures.h"
#include "comm/shared/pending_call.h"
#include "comm/shared/point_to_point.h"
#include "comm/shared/waiter.h"
#include "comm/shared/way.h"
#include "comm/shared/ways.h"

namespace tessera::shared {

class SharedCommunicator final : public Communicator, private Work::Progress, private CallFailure {
 public:
  // `endpoint` must outlive it.
  // Members find each other by `key`; messages call the group `name`.
  SharedCommunicator(Endpoint& endpoint, std::string name, const std::string& key,
                     std::span<const int> members);
  ~SharedCommunicator() override;
  SharedCommunicator(const SharedCommunicator&) = delete;
  SharedCommunicator& operator=(const SharedCommunicator&) = delete;

  [[nodiscard]] int rank() const override { return group_.rank; }
  [[nodiscard]] int size() const override { return group_.view.size(); }
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::span<const int> members() const override { return members_; }
  [[nodiscard]] std::chrono::milliseconds timeout() const override;

  Work start(const CollectiveCall& call) override;
  void run(const CollectiveCall& call) override;
  std::unique_ptr<Communicator> split(int color, int key, const std::string& name) override;
  [[nodiscard]] TrafficCounters counters() const override { return figures_.counters(); }
  [[nodiscard]] std::vector<Arrival> arrivals() const override { return figures_.arrivals(); }

  // Does what can be done without waiting; says what stands in the way of the oldest collective and
  // of the oldest message, where asked.
  void advance(Blocker* calls, Blocker* messages);
  [[nodiscard]] bool idle() const;

 private:
  static constexpr uint64_t kMessageTicket = uint64_t{1} << 63;

  bool test(uint64_t ticket) override;
  bool wait(uint64_t ticket, std::chrono::milliseconds time) override;
  bool wait_until(uint64_t ticket, std::chrono::milliseconds time);
  [[nodiscard]] bool done(uint64_t ticket) const;

  uint64_t issue(const CollectiveCall& call);
  uint64_t issue_message(const CollectiveCall& call, bool on_device);
  void validate(const CollectiveCall& call);
  void publish(PendingCall& pending);
  void put_in_mailbox(const PendingCall& pending, CallLine& line);
  [[nodiscard]] bool lines_free(const PendingCall& pending, Blocker* blocker);

  // The three loops of advance(), each as far as it gets.
  void publish_calls(Blocker* blocker);
  bool move(const PendingCall& pending, Blocker* blocker);
  void move_calls(Blocker* blocker);
  void leave_calls(Blocker* blocker);
  bool arrive(PendingCall& pending, Blocker* blocker);
  [[nodiscard]] bool has_arrived(int peer, uint64_t sequence) const;
  void begin_moving(const PendingCall& pending);
  [[nodiscard]] bool leave(const PendingCall& pending, Blocker* blocker);

  // Whether all call the same (agreement.cc).
  void check_agreement(const PendingCall& pending, int peer);
  [[noreturn]] void fail_mismatch(int peer, uint64_t sequence);
  // What `member` says it called, unless the line holds another call by now.
  [[nodiscard]] std::optional<CollectiveCall> call_of(int member, uint64_t sequence) const;
  void check_counts(const PendingCall& pending);

  // What can go wrong while waiting (trouble.cc).
  void look_for_trouble(const Blocker& blocker, std::chrono::milliseconds waited);
  [[nodiscard]] std::string waiting_text() const;
  [[nodiscard]] std::string absent_ranks(const Blocker& blocker) const;
  void abandon();
  [[noreturn]] void throw_aborted();
  [[noreturn]] void fail(const std::string& text) override;

  [[nodiscard]] PendingCall& at(uint64_t sequence) { return calls_[sequence % kCallSlots]; }
  [[nodiscard]] const PendingCall& at(uint64_t sequence) const {
    return calls_[sequence % kCallSlots];
  }
  [[nodiscard]] int world_rank(int rank) const { return members_[static_cast<size_t>(rank)]; }

  Endpoint& endpoint_;
  const Domain& domain_;
  std::string name_;
  std::string key_;
  std::vector<int> members_;
  Domain::Group group_;
  GroupSite site_;
  Ways ways_;
  PointToPoint messages_;
  Figures figures_;
  std::array<PendingCall, kCallSlots> calls_;
  uint64_t issued_ = 0, published_ = 0, moved_ = 0, completed_ = 0;
  uint64_t history_ = 0;      // of all calls issued
  uint32_t peers_moved_ = 0;  // all peers had moved this many when last looked at
  uint64_t num_mailed_ = 0;
  std::array<uint64_t, kMailSlots> mailed_sequence_{};
  bool warned_ = false;  // in the wait at hand
  int num_splits_ = 0;
};

}  // namespace tessera::shared
