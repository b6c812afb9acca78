// Who is told what the collectives of a rank are at, for whoever watches the rank from outside.
#pragma once

#include <cstdint>
#include <string>

#include "comm/communicator.h"

namespace tessera {

class CallWatcher {
 public:
  virtual ~CallWatcher() = default;
  // A call of that group begins. One at a time.
  virtual void begins(const CollectiveCall& call, uint64_t sequence, const std::string& group) = 0;
  // The rank of the world that some thread has waited for, for a while; -1: none. From any thread.
  virtual void waits_for(int rank) = 0;
};

}  // namespace tessera
