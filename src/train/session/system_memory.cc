#include "train/session/system_memory.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace tessera {

int64_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  int64_t kib = 0;
  while (status >> word) {
    if (word == "VmHWM:") status >> kib;
  }
  return kib * 1024;
}

void add_system_memory(const std::vector<SystemMemory>& ranks, bool one_process,
                       nlohmann::ordered_json& json) {
  int64_t largest = 0, sum = 0, gpu_sum = 0;
  // Threads allocate one after the other: the first to look saw the most free, the last the least.
  int64_t most_free = 0, least_free = ranks.front().gpu_free_after;
  for (const SystemMemory& rank : ranks) {
    largest = std::max(largest, rank.peak_resident_bytes);
    sum += rank.peak_resident_bytes;
    gpu_sum += rank.gpu_free_before - rank.gpu_free_after;
    most_free = std::max(most_free, rank.gpu_free_before);
    least_free = std::min(least_free, rank.gpu_free_after);
  }
  json["peak_resident_bytes"] = largest;
  json["resident_bytes"] = one_process ? largest : sum;
  if (most_free > 0) json["gpu_used_bytes"] = one_process ? most_free - least_free : gpu_sum;
}

}  // namespace tessera
