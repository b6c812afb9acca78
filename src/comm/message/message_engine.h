// What the communicators of one rank share: the transport, the way headers find their group, and
// the turn of every call in flight. Whoever waits for one call moves all of them along, so calls
// of different groups can be waited for in any order.
//
// Locked: everything here except abort needs the lock, and so does the state of the groups that
// the engine calls.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "comm/message/call_header.h"
#include "comm/message/message_world.h"
#include "comm/message/transport.h"

namespace tessera::message {

class MessageEngine {
 public:
  // One rank's end of a group.
  class Group {
   public:
    virtual void take_header(int world_rank, const CallHeader& header) = 0;
    virtual void advance() = 0;

   protected:
    ~Group() = default;
  };

  MessageEngine(std::unique_ptr<Transport> transport, MessageWorldOptions options);
  ~MessageEngine();  // tells the peers
  MessageEngine(const MessageEngine&) = delete;
  MessageEngine& operator=(const MessageEngine&) = delete;

  [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  [[nodiscard]] Transport& transport() { return *transport_; }
  [[nodiscard]] const Transport& transport() const { return *transport_; }
  [[nodiscard]] const MessageWorldOptions& options() const { return options_; }

  // Hands over headers that came before. False when there is such a group already.
  [[nodiscard]] bool add(uint64_t id, Group& group);
  void remove(uint64_t id);

  // Takes what has arrived and advances every call. False when the world is aborted. Throws
  // CommError, and the world is aborted from then on, when something is wrong with a call here.
  [[nodiscard]] bool progress();

  void send_header(int world_rank, const CallHeader& header);
  // Counts what has happened, so that whoever waits knows whether to be eager or to sleep.
  void note_activity() { ++activity_; }
  [[nodiscard]] uint64_t activity() const { return activity_; }

  // For data to that rank; differs from those in use.
  uint32_t next_stream(int world_rank);
  [[nodiscard]] bool has_left(int world_rank) const {
    return left_[static_cast<size_t>(world_rank)];
  }

 private:
  void take_control(const Transport::ControlMessage& message);

  std::unique_ptr<Transport> transport_;
  MessageWorldOptions options_;
  std::mutex mutex_;
  std::unordered_map<uint64_t, Group*> groups_;
  std::vector<Group*> in_order_;  // of joining, so that calls advance in the same order every time
  struct Early {
    int from;
    CallHeader header;
  };
  std::vector<Early> early_;  // for groups that this rank has not joined yet
  uint64_t activity_ = 0;
  std::vector<uint32_t> next_stream_;
  std::vector<bool> left_;
};

}  // namespace tessera::message
