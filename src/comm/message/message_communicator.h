// A group of ranks that exchange messages. Calls run through their schedules side by side, each
// with its own streams and scratch, so any number of them may be in flight.
//
// A rank learns of a disagreement from the headers it gets. In a small group it hears from everyone
// before it touches anything. In a large one it hears from the ranks it receives data from, and
// from the rank before it; two ranks that disagree always have such neighbours between them, so
// somebody finds out, and the abort tells everyone.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/message/message_group.h"
#include "comm/message/running_call.h"

namespace tessera::message {

class MessageCommunicator final : public Communicator,
                                  private Work::Progress,
                                  private MessageEngine::Group {
 public:
  // Members find each other by `key`, in whatever order they are; messages call the group `name`.
  // `engine` must outlive it.
  MessageCommunicator(MessageEngine& engine, std::string name, std::string key,
                      std::span<const int> members);
  ~MessageCommunicator() override;
  MessageCommunicator(const MessageCommunicator&) = delete;
  MessageCommunicator& operator=(const MessageCommunicator&) = delete;

  [[nodiscard]] int rank() const override { return group_.rank; }
  [[nodiscard]] int size() const override { return group_.size(); }
  [[nodiscard]] const std::string& name() const override { return group_.name; }
  [[nodiscard]] std::span<const int> members() const override { return group_.members; }
  [[nodiscard]] std::chrono::milliseconds timeout() const override;

  Work start(const CollectiveCall& call) override;
  void run(const CollectiveCall& call) override;
  std::unique_ptr<Communicator> split(int color, int key, const std::string& name) override;
  [[nodiscard]] TrafficCounters counters() const override;
  [[nodiscard]] std::vector<Arrival> arrivals() const override;

 private:
  using Clock = std::chrono::steady_clock;

  struct Slot {
    explicit Slot(MessageGroup& group) : call(group) {}
    RunningCall call;
    uint64_t ticket = 0;  // 0: free
    bool warned = false;
  };

  bool test(uint64_t ticket) override;
  bool wait(uint64_t ticket, std::chrono::milliseconds time) override;

  void take_header(int world_rank, const CallHeader& header) override;
  void advance() override;

  // The rank of the world that the call waits for; -1: none.
  [[nodiscard]] int awaited_rank(uint64_t ticket);

  // All that follow need the engine's lock.
  uint64_t begin(const CollectiveCall& call);
  [[nodiscard]] Algorithm check(const CollectiveCall& call);
  [[nodiscard]] uint64_t& counter_of(const CollectiveCall& call);
  [[nodiscard]] ScheduleRequest request_for(const CollectiveCall& call, Algorithm algorithm) const;
  Slot& free_slot();
  Slot& slot(uint64_t ticket);
  void release(Slot& slot);
  void take_early_headers(RunningCall& call);
  [[nodiscard]] RunningCall* find_running(int rank, const CallHeader& header);
  void check_late_header(int rank, const CallHeader& header);

  // True when done: the slot is free again then, and when it throws.
  bool poll(Slot& slot, std::chrono::milliseconds waited);
  void look_for_trouble(Slot& slot, std::chrono::milliseconds waited);
  [[nodiscard]] std::string describe_awaited(const RunningCall& call) const;
  [[noreturn]] void throw_aborted(const RunningCall& call) const;

  static constexpr size_t kRecentCalls = 64;
  struct EarlyHeader {
    int rank;
    CallHeader header;
  };

  MessageGroup group_;
  std::string key_;
  std::vector<int> nodes_;  // by rank
  RecipeCache recipes_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<Slot*> running_;                           // in the order started
  std::vector<EarlyHeader> early_headers_;               // of calls that this rank has not made yet
  std::array<CallHeader, kRecentCalls> recent_calls_{};  // of this rank, by sequence
  uint64_t num_collectives_ = 0;
  std::vector<uint64_t> num_sends_;     // by rank
  std::vector<uint64_t> num_receives_;  // by rank
  std::vector<uint64_t> last_heard_;    // by rank: of its collectives
  uint64_t last_ticket_ = 0;
  int num_splits_ = 0;
};

}  // namespace tessera::message
