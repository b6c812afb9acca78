// How much memory this process may still take: of the machine, and of its control groups.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tessera {

struct HostMemory {
  int64_t total_bytes = 0;      // what there is, used or not
  int64_t available_bytes = 0;  // what can still be taken without taking it from somebody
  // The control group (of a container, of a batch job) that leaves less than the machine has: its
  // folder. Empty: none does.
  std::string group = {};
};

// Control groups of both versions count, those above the process's own too; what they keep of files
// only to read them faster is available. `root` is put before /proc and /sys: tests have their own.
// Where the system tells nothing, everything is available.
HostMemory host_memory(const std::string& root = "");

// How many processes the kernel has ended because memory ran out, since the machine started: of
// all, and of those the ones in the control group of this process.
struct MemoryKills {
  int64_t machine = 0;
  int64_t group = 0;
};

// None where the system does not count them.
std::optional<MemoryKills> memory_kills(const std::string& root = "");

int64_t available_memory_bytes();
int64_t total_memory_bytes();

}  // namespace tessera
