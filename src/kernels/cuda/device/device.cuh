// What every CUDA body uses: storage types and their arithmetic, launching, sums over a block.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>

#include "kernels/context.h"
#include "kernels/cuda/gpu.h"
#include "kernels/storage_types.h"
#include "tensor/cuda/check.h"

namespace tessera::kernels::cuda {

// ---- storage types ----  double, float, __nv_bfloat16, __half; arithmetic in Acc<T>.
template <typename T>
struct AccumulateOf {
  using type = float;
};
template <>
struct AccumulateOf<double> {
  using type = double;
};
template <typename T>
using Acc = typename AccumulateOf<T>::type;

__device__ inline double widen(double x) { return x; }
__device__ inline float widen(float x) { return x; }
__device__ inline float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float widen(__half x) { return __half2float(x); }

// Rounds to nearest even.
template <typename T>
__device__ inline T narrow(Acc<T> x) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) return __float2bfloat16_rn(x);
  if constexpr (std::is_same_v<T, __half>) return __float2half_rn(x);
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) return x;
}

// Several neighbours as one load or store of up to 16 bytes. Addresses must be multiples of its
// size.
template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T at[N];
};
template <typename T>
constexpr int kPack = 16 / sizeof(T);

// Whether rows of `width` elements that begin at these addresses can be read in packs of 16 bytes.
template <typename T, typename... Pointers>
bool packable(int64_t width, const Pointers*... pointers) {
  return width % kPack<T> == 0 && ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

// Calls f(TypeTag<T>{}) for the floating storage type `type`.
template <typename F>
void dispatch(const char* op, DType type, const F& f) {
  with_storage_type<__nv_bfloat16, __half>(op, type, f);
}
// The same for the type of a weight gradient beside activations of T.
template <typename T, typename F>
void with_gradient(const Tensor& gradient, const F& f) {
  with_gradient_type<__nv_bfloat16, T, Acc<T>>(gradient, f);
}

// ---- launching ----
inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// After every launch: what is wrong with the launch itself is known at once.
inline void check_launch(const char* op) { tessera::cuda::check(cudaGetLastError(), op); }

template <typename F>
__global__ void for_each_kernel(int64_t count, F f) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += stride) {
    f(i);
  }
}

// f(i) for i in [0, count), each once, in no order.
template <typename F>
void for_each(const char* op, const Gpu& gpu, int64_t count, const F& f) {
  if (count == 0) return;
  constexpr int kThreads = 256;
  const int64_t blocks =
      std::min<int64_t>(ceil_div(count, kThreads), int64_t{32} * gpu.multiprocessors());
  for_each_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, gpu.stream()>>>(count, f);
  check_launch(op);
}

// ---- sums ----  In a fixed order, so that results repeat bit for bit.
template <typename A>
__device__ inline A warp_sum(A x) {
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffU, x, offset);
  return x;
}
template <typename A>
__device__ inline A warp_max(A x) {
  for (int offset = 16; offset > 0; offset /= 2) {
    const A other = __shfl_xor_sync(0xffffffffU, x, offset);
    x = other > x ? other : x;
  }
  return x;
}

// The sum over a block of kThreads threads, to all of them. Every thread of the block must call it.
template <int kThreads, typename A>
__device__ inline A block_sum(A x) {
  static_assert(kThreads % 32 == 0 && kThreads <= 1024);
  __shared__ A parts[32];
  x = warp_sum(x);
  if constexpr (kThreads == 32) return x;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  __syncthreads();  // a call before this one may still be reading
  if (lane == 0) parts[warp] = x;
  __syncthreads();
  return warp_sum(lane < kThreads / 32 ? parts[lane] : A{0});
}

}  // namespace tessera::kernels::cuda
