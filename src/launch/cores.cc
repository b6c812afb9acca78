#include "launch/cores.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <tuple>

namespace tessera {
namespace {

int topology_of(int cpu, const char* what, int otherwise) {
  std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu{}/topology/{}", cpu, what));
  int value = 0;
  return file >> value ? value : otherwise;
}

}  // namespace

std::vector<Core> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // Fails on hosts with more cpus than the set holds: then nothing is pinned.
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return {};
  std::vector<Core> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(static_cast<size_t>(cpu), &set)) continue;
    cores.push_back({.cpu = cpu,
                     .package = topology_of(cpu, "physical_package_id", 0),
                     .core = topology_of(cpu, "core_id", cpu)});
  }
  return cores;
}

std::vector<int> share_of_cores(std::span<const Core> cores, int rank, int ranks,
                                int threads_per_rank) {
  const auto num_cores = static_cast<int64_t>(cores.size());
  if (int64_t{ranks} * threads_per_rank > num_cores) return {};
  std::vector<Core> sorted(cores.begin(), cores.end());
  std::sort(sorted.begin(), sorted.end(), [](const Core& a, const Core& b) {
    return std::tie(a.package, a.core, a.cpu) < std::tie(b.package, b.core, b.cpu);
  });
  std::vector<int> share;
  for (int64_t i = num_cores * rank / ranks; i < num_cores * (rank + 1) / ranks; ++i) {
    share.push_back(sorted[static_cast<size_t>(i)].cpu);
  }
  std::sort(share.begin(), share.end());
  return share;
}

}  // namespace tessera
