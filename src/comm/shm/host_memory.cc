#include "comm/shm/host_memory.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace tessera {
namespace {

constexpr int64_t kUnknown = INT64_MAX;

int64_t meminfo_bytes(const std::string& key) {
  std::ifstream file("/proc/meminfo");
  std::string word;
  while (file >> word) {
    int64_t kib = 0;
    if (word == key && file >> kib) return kib * 1024;
  }
  return kUnknown;
}

int64_t number_in(const std::string& path) {
  std::ifstream file(path);
  int64_t number = 0;
  return file >> number ? number : kUnknown;  // "max" is no number
}

}  // namespace

int64_t available_memory_bytes() {
  const int64_t limit = number_in("/sys/fs/cgroup/memory.max");
  const int64_t used = number_in("/sys/fs/cgroup/memory.current");
  const int64_t group = limit == kUnknown || used == kUnknown ? kUnknown : limit - used;
  return std::min(meminfo_bytes("MemAvailable:"), group);
}

int64_t total_memory_bytes() {
  return std::min(meminfo_bytes("MemTotal:"), number_in("/sys/fs/cgroup/memory.max"));
}

}  // namespace tessera
