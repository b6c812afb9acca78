// Which cores each rank of this host gets.
#pragma once

#include <span>
#include <vector>

namespace tessera {

struct Core {
  int cpu = 0;  // as the system numbers them
  int package = 0;
  int core = 0;  // within the package; hyper-threads share it
};

// The cores that this process may run on; empty where the system does not say.
std::vector<Core> allowed_cores();

// Rank `rank` of `ranks` gets the cpus it returns: neighbours, siblings of one core together.
// Empty, which means all: when there are more threads than cores.
std::vector<int> share_of_cores(std::span<const Core> cores, int rank, int ranks,
                                int threads_per_rank);

}  // namespace tessera
