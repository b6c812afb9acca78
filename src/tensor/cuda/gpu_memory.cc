#include "tensor/gpu_memory.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "tensor/cuda/check.h"
#include "tensor/gpu_support.h"

namespace tessera::cuda {
namespace {

// Why cudaGetDeviceCount failed: no driver, an old one, no device.
std::string words_of(cudaError_t status) {
  (void)cudaGetLastError();
  return fmt::format("{} ({})", cudaGetErrorString(status), cudaGetErrorName(status));
}

std::string megabytes(int64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / 1048576);
}

}  // namespace

bool built_with_cuda() { return true; }

int num_gpus() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

GpuInfo gpu_info(int device) {
  GpuAnswers answers;
  answers.device = device;
  answers.built_for = TESSERA_CUDA_BUILT_FOR;
  (void)cudaDriverGetVersion(&answers.driver_version);
  (void)cudaRuntimeGetVersion(&answers.runtime_version);
  if (const cudaError_t status = cudaGetDeviceCount(&answers.count); status != cudaSuccess) {
    answers.count = 0;
    answers.count_error = words_of(status);
  }
  GpuInfo info;
  info.driver_version = answers.driver_version;
  info.runtime_version = answers.runtime_version;
  if (device >= 0 && device < answers.count) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, device), "asking for the GPU's properties");
    info.name = answers.name = properties.name;
    info.major = answers.major = properties.major;
    info.minor = answers.minor = properties.minor;
    info.multiprocessors = properties.multiProcessorCount;
    info.total_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  }
  info.why_not = why_not(answers);
  if (!info.why_not.empty()) return info;
  check(cudaSetDevice(device), "choosing the GPU");
  size_t free_bytes = 0, total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for the GPU's memory");
  info.free_bytes = static_cast<int64_t>(free_bytes);
  return info;
}

HostArena allocate_on_gpu(int device, const std::string& name, int64_t size_bytes) {
  check(cudaSetDevice(device), "choosing the GPU");
  void* data = nullptr;
  if (size_bytes > 0) {
    const cudaError_t status = cudaMalloc(&data, static_cast<size_t>(size_bytes));
    if (status == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      size_t free_bytes = 0, total_bytes = 0;
      (void)cudaMemGetInfo(&free_bytes, &total_bytes);
      throw Error(fmt::format("{}: GPU {} has no room for {}, {} are free", name, device,
                              megabytes(size_bytes), megabytes(static_cast<int64_t>(free_bytes))),
                  ExitCode::kDoesNotFit);
    }
    check(status, "taking memory of the GPU");
    check(cudaMemset(data, 0, static_cast<size_t>(size_bytes)), "clearing memory of the GPU");
    check(cudaDeviceSynchronize(), "clearing memory of the GPU");  // streams do not wait for it
    // Streams that do not wait for the default one could write before it has cleared.
    check(cudaStreamSynchronize(nullptr), "clearing memory of the GPU");
  }
  return {name, static_cast<std::byte*>(data), size_bytes, [data] { (void)cudaFree(data); }};
}

HostArena allocate_pinned(const std::string& name, int64_t size_bytes) {
  void* data = nullptr;
  if (size_bytes > 0) {
    check(cudaHostAlloc(&data, static_cast<size_t>(size_bytes),
                        cudaHostAllocPortable | cudaHostAllocMapped),
          "taking pinned memory of the host");
    std::fill_n(static_cast<std::byte*>(data), size_bytes, std::byte{0});
  }
  return {name, static_cast<std::byte*>(data), size_bytes, [data] { (void)cudaFreeHost(data); }};
}

HostArena pin_on_host(HostArena memory) {
  if (memory.size_bytes() == 0) return memory;
  check(cudaHostRegister(memory.data(), static_cast<size_t>(memory.size_bytes()),
                         cudaHostRegisterPortable),
        "pinning memory of the host");
  // The registration ends before the memory does.
  const auto owner = std::make_shared<HostArena>(std::move(memory));
  return {owner->name(), owner->data(), owner->size_bytes(),
          [owner] { (void)cudaHostUnregister(owner->data()); }};
}

void copy_to_gpu(void* to, const void* from, int64_t size_bytes) {
  if (size_bytes == 0) return;
  check(cudaDeviceSynchronize(), "waiting for the GPU");
  check(cudaMemcpy(to, from, static_cast<size_t>(size_bytes), cudaMemcpyHostToDevice),
        "copying to the GPU");
  // The call may return before the last bytes have arrived, and streams do not wait for them.
  check(cudaDeviceSynchronize(), "copying to the GPU");
}

void copy_from_gpu(void* to, const void* from, int64_t size_bytes) {
  if (size_bytes == 0) return;
  check(cudaDeviceSynchronize(), "waiting for the GPU");
  check(cudaMemcpy(to, from, static_cast<size_t>(size_bytes), cudaMemcpyDeviceToHost),
        "copying from the GPU");
}

}  // namespace tessera::cuda
