// What benchmarks of kernels on a GPU share: a context to call them in, and tensors to call them
// on.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "kernels/context.h"
#include "kernels/cuda/gpu.h"
#include "tensor/element.h"
#include "tensor/gpu_memory.h"

namespace tessera {

// A context of the first GPU.
class GpuContext {
 public:
  explicit GpuContext(int64_t workspace_bytes, kernels::cuda::Gpu::Options options = {})
      : gpu_(options),
        workspace_(cuda::allocate_on_gpu(0, "workspace", workspace_bytes)),
        params_(cuda::allocate_on_gpu(0, "params", sizeof(StepParams))),
        context_{workers_,
                 {workspace_.data(), static_cast<size_t>(workspace_bytes)},
                 reinterpret_cast<const StepParams*>(params_.data()),
                 &gpu_} {
    const StepParams params;
    cuda::copy_to_gpu(params_.data(), &params, sizeof(params));
  }
  operator kernels::Context&() { return context_; }  // it stands for its context
  kernels::cuda::Gpu& gpu() { return gpu_; }

 private:
  Workers workers_{1};
  kernels::cuda::Gpu gpu_;
  HostArena workspace_, params_;
  kernels::Context context_;
};

// A tensor on the GPU. It is too large to be filled number by number: random ones again and again.
class GpuTensor {
 public:
  GpuTensor(DType type, std::initializer_list<int64_t> dims)
      : tensor_(nullptr, type, dims), memory_(cuda::allocate_on_gpu(0, "bench", tensor_.bytes())) {
    tensor_.data = memory_.data();
    const int64_t count = std::min<int64_t>(tensor_.numel(), int64_t{1} << 18);
    std::vector<std::byte> bytes(static_cast<size_t>(count * size_bytes(type)));
    Tensor pattern(bytes.data(), type, {count});
    uint64_t seed = 19;
    for (int64_t i = 0; i < count; ++i) {
      seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
      write_element(pattern, i, static_cast<double>(seed >> 40) / (1 << 23) - 1);
    }
    for (int64_t at = 0; at < tensor_.bytes(); at += pattern.bytes()) {
      cuda::copy_to_gpu(tensor_.as<std::byte>() + at, pattern.data,
                        std::min(pattern.bytes(), tensor_.bytes() - at));
    }
  }
  operator Tensor&() { return tensor_; }  // it stands for its tensor
  operator const Tensor&() const { return tensor_; }
  [[nodiscard]] int64_t bytes() const { return tensor_.bytes(); }

 private:
  Tensor tensor_;
  HostArena memory_;
};

// Runs a benchmark, or says why this machine cannot.
template <typename Run>
int run_on_gpu(const char* program, const Run& run) {
  if (const cuda::GpuInfo info = cuda::gpu_info(0); !info.why_not.empty()) {
    fmt::print(stderr, "{}: no GPU: {}\n", program, info.why_not);
    return 1;
  }
  run();
  return 0;
}

}  // namespace tessera
