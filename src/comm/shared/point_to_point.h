// Messages between two ranks of a group. A message is one part that the receiver reads straight
// from the sender's buffer, or parts that go through a small ring of mailboxes: then the sender
// does not wait for the receiver unless the ring is full. Messages of one pair and direction arrive
// in order. What lies on a device is always read from the sender's buffer.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/device.h"
#include "comm/shared/domain.h"
#include "comm/shared/waiter.h"

namespace tessera::shared {

class PointToPoint {
 public:
  static constexpr size_t kInFlight = 64;

  // All must outlive it; `device` may be null. Messages of different channels do not meet.
  PointToPoint(const Domain& domain, const Domain::Group& group, DeviceMover* device, int channel);

  // The ticket of the message, or nothing while kInFlight are under way.
  // Its bytes count as traffic of `counted_as`.
  std::optional<uint64_t> issue(const CollectiveCall& call, CollectiveOp counted_as,
                                bool on_device);
  [[nodiscard]] bool done(uint64_t ticket) const;
  [[nodiscard]] bool idle() const { return num_active_ == 0; }
  [[nodiscard]] size_t num_free() const { return kInFlight - num_active_; }

  // Does what can be done without waiting. Returns what is wrong when a message does not fit its
  // receive ("rank 1 sends … while rank 0 called …").
  std::optional<std::string> advance(Blocker* blocker, std::span<const int> members);

  // After an abort: no receiver may begin to read a buffer of this rank; waits for those that have.
  // What this rank was reading when a device failed is given back.
  void take_back(std::chrono::milliseconds patience);

  // The oldest message that is not done.
  [[nodiscard]] uint64_t oldest_ticket() const { return messages_[order_.front()].ticket; }
  [[nodiscard]] const CollectiveCall* oldest(uint64_t& sequence) const;

 private:
  struct Message {
    CollectiveCall call;
    CollectiveOp counted_as = CollectiveOp::kSend;
    uint64_t ticket = 0;    // 0: free
    uint64_t sequence = 0;  // among those of the pair, from 1
    int64_t bytes_done = 0;
    uint32_t last_part = 0;  // of a receive: the one that is being read from the sender's buffer
    bool on_device = false;
    bool begun = false;
    bool announced = false;  // all of it is with the receiver; only its buffer is still in use
  };

  bool advance_send(Message& message, Blocker* blocker);
  bool advance_receive(Message& message, Blocker* blocker, std::span<const int> members,
                       std::optional<std::string>& wrong);
  // What is wrong with the part that arrived; nothing: it fits.
  [[nodiscard]] std::string misfit(const Message& message, const PartLine& line,
                                   std::span<const int> members) const;
  void copy_on_device(const Message& message, std::byte* to, const std::byte* from, int64_t bytes,
                      std::span<const int> members, std::optional<std::string>& wrong);
  void finish(Message& message);

  const Domain& domain_;
  const Domain::Group& group_;
  DeviceMover* device_;
  int channel_;
  std::array<Message, kInFlight> messages_;
  size_t num_active_ = 0;
  uint64_t last_ticket_ = 0;
  std::vector<uint64_t> order_;                        // active places, oldest first
  std::vector<uint32_t> parts_sent_, parts_received_;  // by peer
  std::vector<uint64_t> num_sends_, num_receives_;
  std::vector<char> send_busy_, receive_busy_;  // scratch of advance, by peer
};

}  // namespace tessera::shared
