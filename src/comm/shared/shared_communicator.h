// A group of ranks that exchange data straight between their buffers, be they threads or processes.
//
// A collective goes through four stages on every rank, and none of them blocks:
//   issue   publish the call in this rank's line (small contributions are copied into its mailbox)
//   arrive  every peer has published; their fingerprints agree with mine
//   move    copy and reduce this rank's part (see movement.h); publish that it is done
//   leave   every peer that uses my buffers has moved
// Collectives of a group move in order. A mailed one has no buffers to protect and does not leave.
// Buffers in the memory of a device are never mailed, staged or helped with (on_device.cc): they
// are read straight from the peers, and the stage `move` waits for the device.
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

#include "collective/schedule.h"
#include "comm/communicator.h"
#include "comm/device.h"
#include "comm/shared/domain.h"
#include "comm/shared/movement.h"
#include "comm/shared/point_to_point.h"
#include "comm/shared/waiter.h"
#include "tensor/arena.h"

namespace tessera::shared {

class Endpoint;

class SharedCommunicator final : public Communicator, private Work::Progress {
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
  [[nodiscard]] TrafficCounters counters() const override;
  [[nodiscard]] std::vector<Arrival> arrivals() const override;

  // Does what can be done without waiting; says what stands in the way of the oldest collective and
  // of the oldest message, where asked.
  void advance(Blocker* calls, Blocker* messages);
  [[nodiscard]] bool idle() const;

 private:
  static constexpr uint64_t kMessageTicket = uint64_t{1} << 63;
  static constexpr size_t kLatenessBuckets = 64;

  struct Op {
    CollectiveCall call;
    uint64_t sequence = 0;
    uint64_t history = 0;
    bool published = false;
    bool on_device = false;
    bool mailed = false;
    bool staged = false;
    bool any_in_place = false;
    bool helped = false;       // any member may move any part
    uint8_t any_flags = 0;     // of the members checked
    uint8_t all_flags = 0xff;  //
    int checked = 0;           // peers that have arrived and agree
    int64_t part = 0;          // of a staged call: parts done
    bool part_filled = false;  // the next part is in the stage
    bool part_moved = false;
    bool scheduled = false;
  };

  bool test(uint64_t ticket) override;
  bool wait(uint64_t ticket, std::chrono::milliseconds time) override;
  [[nodiscard]] bool done(uint64_t ticket) const;

  uint64_t issue(const CollectiveCall& call);
  void validate(const CollectiveCall& call);
  void publish(Op& op);
  [[nodiscard]] bool lines_free(const Op& op, Blocker* blocker);

  bool arrive(Op& op, Blocker* blocker);
  [[nodiscard]] bool awaits(const Op& op, int peer) const;
  [[nodiscard]] bool has_arrived(int peer, uint64_t sequence) const;
  void begin_moving(const Op& op);

  // Whether all call the same (agreement.cc).
  void check_agreement(const Op& op, int peer);
  [[noreturn]] void fail_mismatch(int peer, uint64_t sequence);
  // What `member` says it called, unless the line holds another call by now.
  [[nodiscard]] std::optional<CollectiveCall> call_of(int member, uint64_t sequence) const;
  void check_counts(const Op& op);

  void move_data(Op& op);
  void move_range(Op& op, int64_t begin, int64_t end, int64_t stage_stride);
  [[nodiscard]] bool leave(const Op& op, Blocker* blocker);

  // Of calls whose buffers are memory of a device (on_device.cc).
  [[nodiscard]] bool lies_on_device(const CollectiveCall& call);
  [[nodiscard]] uint8_t memory_flag(const Op& op) const;
  void check_same_memory(const Op& op);
  void finish_on_device(const Op& op);
  // Whatever goes wrong on the device in `step` ends the world.
  template <typename Step>
  void guard_device(const CollectiveCall& call, uint64_t sequence, const Step& step) {
    try {
      step();
    } catch (const Error& error) {
      fail_on_device(call, sequence, error);
    }
  }
  [[noreturn]] void fail_on_device(const CollectiveCall& call, uint64_t sequence,
                                   const Error& error);

  // Of calls whose parts any member may move (helping.cc).
  [[nodiscard]] bool may_be_helped(const CollectiveCall& call) const;
  void move_parts(const Op& op, Movement movement);
  [[nodiscard]] bool claim_part(const Op& op, int part);
  [[nodiscard]] bool holds_parts(const Op& op, int peer) const;

  // Of calls with buffers that peers cannot reach (staging.cc).
  bool move_staged(Op& op, Blocker* blocker);
  [[nodiscard]] int64_t longest_block(const Op& op) const;
  void make_stage();
  void copy_stage(const Op& op, int64_t begin, int64_t end, int64_t stride, bool in);
  bool await_stage(Counter Member::*counter, uint32_t target, Blocker* blocker);

  // Of calls that ask for an algorithm of messages (scheduled.cc).
  bool move_scheduled(Op& op, Blocker* blocker);
  void begin_schedule(const Op& op);
  void begin_round(const Op& op);
  void run_step(const Op& op, const CollectiveStep& step);
  void copy_in_step(const Op& op, const CollectiveStep& step);
  void reduce_in_step(const Op& op, const CollectiveStep& step);
  [[nodiscard]] std::byte* step_address(const Op& op, const StepPlace& place) const;

  bool wait_until(uint64_t ticket, std::chrono::milliseconds time);

  // What can go wrong while waiting (trouble.cc).
  void look_for_trouble(const Blocker& blocker, std::chrono::milliseconds waited);
  [[nodiscard]] std::string waiting_text() const;
  [[nodiscard]] std::string absent_ranks(const Blocker& blocker) const;
  void abandon();
  [[noreturn]] void throw_aborted();
  [[noreturn]] void fail(const std::string& text);

  // What is kept of calls, with counters() and arrivals() (figures.cc).
  void note_lateness(const Op& op);
  void record(const CollectiveCall& call, uint64_t sequence);

  [[nodiscard]] Op& op(uint64_t sequence) { return ops_[sequence % kCallSlots]; }
  [[nodiscard]] const Op& op(uint64_t sequence) const { return ops_[sequence % kCallSlots]; }
  [[nodiscard]] int world_rank(int rank) const { return members_[static_cast<size_t>(rank)]; }

  Endpoint& endpoint_;
  const Domain& domain_;
  std::string name_;
  std::string key_;
  std::vector<int> members_;
  Domain::Group group_;
  std::unique_ptr<DeviceMover> device_;  // null: the world has none
  PointToPoint messages_;
  PointToPoint schedule_messages_;
  std::array<Op, kCallSlots> ops_;
  uint64_t issued_ = 0, published_ = 0, moved_ = 0, completed_ = 0;
  uint64_t history_ = 0;      // of all calls issued
  uint32_t peers_moved_ = 0;  // all peers had moved this many when last looked at
  uint64_t num_mailed_ = 0;
  std::array<uint64_t, kMailSlots> mailed_sequence_{};
  uint32_t stage_parts_ = 0;  // since the beginning; the same on all ranks
  HostArena stage_;
  CollectiveSchedule schedule_;      // of the call that is moving, where it has one
  std::optional<size_t> next_step_;  // not before it has begun
  HostArena schedule_scratch_;
  HostArena device_scratch_;  // the same, for calls on the device
  std::array<int64_t, kNumCollectiveOps> calls_{};
  bool warned_ = false;  // in the wait at hand
  int num_splits_ = 0;
  // Scratch of one call, by rank.
  std::vector<Side> in_, out_;
  std::vector<const void*> sources_;
  std::vector<void*> targets_;
  std::vector<int64_t> offsets_, lengths_;
  std::vector<std::array<int64_t, kLatenessBuckets>> lateness_;  // by log2 of ticks
  std::vector<int64_t> times_last_;
  uint64_t first_ticks_;
  std::chrono::steady_clock::time_point first_time_;
};

}  // namespace tessera::shared
