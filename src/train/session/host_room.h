// Whether the ranks of every host together fit in its memory. For ranks that somebody else started,
// so that nobody could add them up before.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "comm/communicator.h"
#include "comm/shm/host_memory.h"

namespace tessera {

// The ranks of one host, or of one control group there that has a limit.
struct HostShare {
  std::string host;
  int64_t ranks = 0;
  int64_t needed_bytes = 0;
  HostMemory memory;  // the least that one of them saw
};

// What to say of a host that is too small: where it is, what would help.
using HostRefusal = std::function<std::string(const HostShare&)>;

// Before this rank takes `my_bytes`. Collective: all ranks see the same numbers, and all throw
// Error with ExitCode::kDoesNotFit where a host has too little. Rank 0 says `refusal`, the others
// the numbers alone.
void require_room_on_hosts(Communicator& control, int64_t my_bytes, const HostRefusal& refusal);

}  // namespace tessera
