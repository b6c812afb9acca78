// What the operating system and the GPU's driver count for a run. Arenas are what the engine asked
// for; this is what was taken, with everything else that a process needs.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace tessera {

// What one rank sees; in a process of many ranks they share the values.
struct SystemMemory {
  int64_t peak_resident_bytes = 0;  // of the process; 0 where the system does not tell
  int64_t gpu_free_before = 0, gpu_free_after = 0;  // 0: no GPU
};

// Largest resident memory of this process so far.
int64_t peak_resident_bytes();

// Adds to a document of kind "run": `peak_resident_bytes` of the largest process,
// `resident_bytes` of all processes and, on GPUs, `gpu_used_bytes`. `one_process`: ranks are
// threads that share one GPU.
void add_system_memory(const std::vector<SystemMemory>& ranks, bool one_process,
                       nlohmann::ordered_json& json);

}  // namespace tessera
