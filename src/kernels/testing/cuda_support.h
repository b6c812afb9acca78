// CUDA bodies beside their CPU references: the same call on both, on the same random inputs, with
// outputs poisoned before.
#pragma once

#include <optional>

#include "kernels/cuda/gpu.h"
#include "kernels/testing/test_support.h"
#include "tensor/gpu_memory.h"

namespace tessera::kernels::cuda::testing {

using namespace kernels::testing;  // test vocabulary

#define SKIP_WITHOUT_GPU()                                                 \
  if (const auto info = tessera::cuda::gpu_info(0); !info.why_not.empty()) \
  GTEST_SKIP() << "no GPU: " << info.why_not

// A copy of an array on the GPU. A tensor of it is what a kernel takes.
class OnGpu {
 public:
  explicit OnGpu(const Array& array)
      : host_(array), memory_(tessera::cuda::allocate_on_gpu(0, "test", array.tensor().bytes())) {
    tensor_ = array.tensor();
    tensor_.data = memory_.data();
    tessera::cuda::copy_to_gpu(tensor_.data, array.tensor().data, tensor_.bytes());
  }
  operator Tensor&() { return tensor_; }  // it stands for its tensor
  operator const Tensor&() const { return tensor_; }
  // What is there now.
  [[nodiscard]] Array get() const {
    Array array = host_;
    tessera::cuda::copy_from_gpu(array.tensor().data, tensor_.data, tensor_.bytes());
    return array;
  }

 private:
  Array host_;
  HostArena memory_;
  Tensor tensor_;
};

// A GPU and a workspace on it.
class GpuRig {
 public:
  explicit GpuRig(int64_t workspace_bytes = 0, Gpu::Options options = {})
      : gpu_(options),
        workspace_(tessera::cuda::allocate_on_gpu(0, "workspace", workspace_bytes)),
        params_memory_(tessera::cuda::allocate_on_gpu(0, "params", sizeof(StepParams))) {
    context_.emplace(Context{workers_,
                             {workspace_.data(), static_cast<size_t>(workspace_bytes)},
                             reinterpret_cast<const StepParams*>(params_memory_.data()),
                             &gpu_});
    set_params({});
  }
  void set_params(const StepParams& params) {
    tessera::cuda::copy_to_gpu(params_memory_.data(), &params, sizeof(params));
  }
  operator Context&() { return *context_; }  // a rig stands for its context
  Gpu& gpu() { return gpu_; }

 private:
  Workers workers_{1};
  Gpu gpu_;
  HostArena workspace_;
  HostArena params_memory_;
  std::optional<Context> context_;
};

// All elements of `x` but the first: an address that is no multiple of 16.
inline Tensor without_first(const Tensor& x) {
  return {x.as<std::byte>() + size_bytes(x.dtype), x.dtype, {x.numel() - 1}};
}

// Calls f(case, type) for every case in every type.
template <typename Cases, typename F>
void for_each_case(const Cases& cases, const F& f) {
  for (const auto& each : cases) {
    for (const DType type : kFloatTypes) f(each, type);
  }
}

// Every element is what the CPU got, within `relative` of the largest.
inline void expect_same(const OnGpu& actual, const Array& expected, double relative) {
  expect_close(actual.get(), expected.values(), relative);
}

}  // namespace tessera::kernels::cuda::testing
