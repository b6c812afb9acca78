// Memory of a GPU, and memory of the host that a GPU reads and writes. Where this program was built
// without CUDA, or the machine has no GPU, everything here throws Error saying so.
#pragma once

#include <cstdint>
#include <string>

#include "tensor/arena.h"

namespace tessera::cuda {

// What can be said of one GPU; `why_not` is empty where it can be used.
struct GpuInfo {
  std::string name;  // "NVIDIA H200"
  int major = 0, minor = 0;
  int multiprocessors = 0;
  int64_t total_bytes = 0, free_bytes = 0;
  int driver_version = 0, runtime_version = 0;  // 13000: 13.0; 0: none
  std::string why_not;
};
GpuInfo gpu_info(int device);
int num_gpus();  // usable or not
bool built_with_cuda();

// One block on `device`, zeroed. Throws Error with ExitCode::kDoesNotFit when there is no room.
HostArena allocate_on_gpu(int device, const std::string& name, int64_t size_bytes);
// One block on the host, zeroed, whose pages stay where they are.
HostArena allocate_pinned(const std::string& name, int64_t size_bytes);
// The same of memory that is there already, whose contents stay. The pages are free to move again
// when what is returned ends.
HostArena pin_on_host(HostArena memory);

// Wait until everything before them on the GPU is done, and for the copy.
void copy_to_gpu(void* to, const void* from, int64_t size_bytes);
void copy_from_gpu(void* to, const void* from, int64_t size_bytes);

}  // namespace tessera::cuda
