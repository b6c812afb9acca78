// The functions of the CUDA runtime and of NCCL that the backend calls, as a table: the libraries
// are opened when a world is made, so a program without a GPU never needs them, and a test can put
// its own functions there.
#pragma once

#include <nccl.h>

#include <atomic>
#include <memory>
#include <string>

#include "base/error.h"

// Every function whose address names one function (cudaMalloc and its like are overloaded).
#define TESSERA_CUDA_FUNCTIONS(X) \
  X(cudaGetDeviceCount)           \
  X(cudaSetDevice)                \
  X(cudaDeviceGetPCIBusId)        \
  X(cudaGetErrorString)           \
  X(cudaGetLastError)             \
  X(cudaFree)                     \
  X(cudaFreeAsync)                \
  X(cudaMemcpy)                   \
  X(cudaMemset)                   \
  X(cudaStreamSynchronize)        \
  X(cudaMemcpyAsync)              \
  X(cudaPointerGetAttributes)     \
  X(cudaStreamCreateWithFlags)    \
  X(cudaStreamDestroy)            \
  X(cudaStreamWaitEvent)          \
  X(cudaEventCreateWithFlags)     \
  X(cudaEventDestroy)             \
  X(cudaEventRecord)              \
  X(cudaEventQuery)

#define TESSERA_NCCL_FUNCTIONS(X) \
  X(ncclGetUniqueId)              \
  X(ncclCommInitRankConfig)       \
  X(ncclCommGetAsyncError)        \
  X(ncclCommFinalize)             \
  X(ncclCommDestroy)              \
  X(ncclCommAbort)                \
  X(ncclGetErrorString)           \
  X(ncclGetLastError)             \
  X(ncclGroupStart)               \
  X(ncclGroupEnd)                 \
  X(ncclAllReduce)                \
  X(ncclReduce)                   \
  X(ncclBroadcast)                \
  X(ncclAllGather)                \
  X(ncclReduceScatter)            \
  X(ncclSend)                     \
  X(ncclRecv)

namespace tessera::nccl {

struct GpuLibrary {
#define TESSERA_MEMBER(name) decltype(&::name) name = nullptr;
  TESSERA_CUDA_FUNCTIONS(TESSERA_MEMBER)
  TESSERA_NCCL_FUNCTIONS(TESSERA_MEMBER)
#undef TESSERA_MEMBER
  cudaError_t (*cudaMalloc)(void** memory, size_t size_bytes) = nullptr;
  cudaError_t (*cudaMallocAsync)(void** memory, size_t size_bytes, cudaStream_t) = nullptr;
};

// Throws Error saying which library or function is missing. The libraries stay open: their threads
// outlive any world.
std::shared_ptr<const GpuLibrary> load_gpu_library();

// The GPU of one rank. Shared by everything that lives on it.
struct Gpu {
  Gpu(std::shared_ptr<const GpuLibrary> table, int number)
      : library(std::move(table)), device(number) {}

  // CUDA calls of this thread mean this GPU from now on.
  void make_current() const;
  // Throw Error: "`what`: the words of CUDA or NCCL".
  void check(cudaError_t status, const char* what) const;
  void check(ncclResult_t status, const char* what) const;

  const std::shared_ptr<const GpuLibrary> library;
  const int device;
  // NCCL did not stop when told to: its kernels may still run, so nothing that they use is freed.
  std::atomic<bool> stuck{false};
};

}  // namespace tessera::nccl
