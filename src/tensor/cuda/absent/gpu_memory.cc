#include "tensor/gpu_memory.h"

#include "base/error.h"

namespace tessera::cuda {
namespace {

constexpr const char* kAbsent =
    "this program was built without CUDA: configure it with -DTESSERA_CUDA=on where nvcc is "
    "installed";

}  // namespace

bool built_with_cuda() { return false; }
int num_gpus() { return 0; }

GpuInfo gpu_info(int /*device*/) {
  GpuInfo info;
  info.why_not = kAbsent;
  return info;
}

HostArena allocate_on_gpu(int /*device*/, const std::string& /*name*/, int64_t /*size_bytes*/) {
  throw Error(kAbsent);
}
HostArena allocate_pinned(const std::string& /*name*/, int64_t /*size_bytes*/) {
  throw Error(kAbsent);
}
HostArena pin_on_host(HostArena /*memory*/) { throw Error(kAbsent); }
void copy_to_gpu(void* /*to*/, const void* /*from*/, int64_t /*size_bytes*/) {
  throw Error(kAbsent);
}
void copy_from_gpu(void* /*to*/, const void* /*from*/, int64_t /*size_bytes*/) {
  throw Error(kAbsent);
}

}  // namespace tessera::cuda
