// One rank's view of a group: who is in it, and what has gone through it. Needs the engine's lock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/message/arrival_log.h"
#include "comm/message/message_engine.h"

namespace tessera::message {

struct MessageGroup {
  MessageEngine& engine;
  std::string name;
  std::vector<int> members;  // world ranks
  int rank = 0;              // of this one, within the group
  uint64_t id = 0;           // the same on all members, different for every group
  TrafficCounters counters = {};
  ArrivalLog arrivals;

  [[nodiscard]] int size() const { return static_cast<int>(members.size()); }
  [[nodiscard]] int world_rank(int member) const { return members[static_cast<size_t>(member)]; }
  [[nodiscard]] std::string describe_member(int member) const {
    return engine.transport().describe_peer(world_rank(member));
  }
  // Aborts the world and throws. `text` follows "group NAME: ".
  [[noreturn]] void fail(const std::string& text) const {
    const std::string message = fmt::format("group {}: {}", name, text);
    engine.transport().abort(message);
    throw CommError(message);
  }
};

}  // namespace tessera::message
