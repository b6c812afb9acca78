#include "comm/nccl/gpu_library.h"

#include "tensor/shared_library.h"

namespace tessera::nccl {

std::shared_ptr<const GpuLibrary> load_gpu_library() {
  const auto table = std::make_shared<GpuLibrary>();
  void* const cuda =
      open_library(fmt::format("libcudart.so.{}", CUDART_VERSION / 1000), "the CUDA runtime");
  void* const nccl = open_library(fmt::format("libnccl.so.{}", NCCL_MAJOR), "NCCL");
#define TESSERA_CUDA_FUNCTION(name) look_up(cuda, #name, table->name);
#define TESSERA_NCCL_FUNCTION(name) look_up(nccl, #name, table->name);
  TESSERA_CUDA_FUNCTIONS(TESSERA_CUDA_FUNCTION)
  TESSERA_CUDA_FUNCTION(cudaMalloc)
  TESSERA_CUDA_FUNCTION(cudaMallocAsync)
  TESSERA_NCCL_FUNCTIONS(TESSERA_NCCL_FUNCTION)
#undef TESSERA_CUDA_FUNCTION
#undef TESSERA_NCCL_FUNCTION
  return table;
}

void Gpu::make_current() const { check(library->cudaSetDevice(device), "choosing the GPU"); }

void Gpu::check(cudaError_t status, const char* what) const {
  if (status == cudaSuccess) return;
  (void)library->cudaGetLastError();  // or the next call that asks for it would see this one
  throw Error(
      fmt::format("{} (GPU {}): CUDA says: {}", what, device, library->cudaGetErrorString(status)));
}

void Gpu::check(ncclResult_t status, const char* what) const {
  if (status == ncclSuccess || status == ncclInProgress) return;
  throw Error(fmt::format("{} (GPU {}): NCCL says: {}; {}", what, device,
                          library->ncclGetErrorString(status), library->ncclGetLastError(nullptr)));
}

}  // namespace tessera::nccl
