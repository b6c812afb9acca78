// Why somebody else killed a rank, as far as this host can tell. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "comm/shm/host_memory.h"

namespace tessera {

struct KillFacts {
  int64_t planned_bytes = 0;  // of all ranks of this host
  HostMemory memory = {};     // before they started
  // Since they started, what the kernel ended for want of memory; none: it does not count.
  std::optional<MemoryKills> meanwhile = {};
};

// "probably out of memory: planned 5.0 GiB, the machine has 5.2 GiB" only where the kernel says so
// or the numbers do; else how to find out who it was.
std::string kill_cause(const KillFacts& facts);

}  // namespace tessera
