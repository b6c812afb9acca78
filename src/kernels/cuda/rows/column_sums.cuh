// Sums over rows, one per column: the shape of every gradient of a vector that all tokens share.
// Two launches: blocks sum parts of the rows to scratch [sums, parts, width], then the parts are
// summed. The order of additions depends on nothing but the shape.
#pragma once

#include <array>

#include "base/cuda_workspace.h"
#include "kernels/cuda/device/packs.cuh"
#include "kernels/scratch.h"

namespace tessera::kernels::cuda {

inline constexpr int kSumThreads = 256;

// A block sums rows [part * rows_per_part, …) of kLanes * N columns; kLanes threads share a row,
// and the groups of so many threads take rows in turn. Terms has
//   load(row, column), which reads what N terms need into registers, and
//   add(loaded, sums), which adds each to its sum: N of the first kind, then N of the second, ….
template <int N, int kSums, int kLanes, typename A, typename Terms>
__global__ void __launch_bounds__(kSumThreads)
    part_sums_kernel(int64_t rows, int64_t width, int64_t rows_per_part, Terms terms, A* parts) {
  constexpr int kColumns = kLanes * N, kWarps = kSumThreads / 32, kGroups = kSumThreads / kLanes;
  constexpr int kAtOnce = sizeof(typename Terms::Loaded) > 16 ? 4 : 8;  // rows in flight
  static_assert(kColumns <= kSumThreads && 32 % kLanes == 0);
  __shared__ A by_warp[kSums][kWarps][kColumns];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kLanes;
  const int64_t column = blockIdx.x * static_cast<int64_t>(kColumns) + lane * N;
  const int64_t begin = blockIdx.y * rows_per_part;
  const int64_t end = std::min<int64_t>(rows, begin + rows_per_part);
  A sums[kSums * N] = {};
  for (int64_t first = begin + thread / kLanes; column < width && first < end;
       first += kAtOnce * kGroups) {
    typename Terms::Loaded loaded[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int64_t row = first + k * kGroups;
      if (row < end) loaded[k] = terms.load(row, column);
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (first + k * kGroups >= end) break;
      terms.add(loaded[k], sums);
    }
  }
#pragma unroll
  for (int j = 0; j < kSums * N; ++j) {
    for (int offset = kLanes; offset < 32; offset *= 2) {
      sums[j] += __shfl_xor_sync(0xffffffffU, sums[j], offset);
    }
    if (thread % 32 < kLanes) by_warp[j / N][thread / 32][lane * N + j % N] = sums[j];
  }
  __syncthreads();
  const int64_t mine = blockIdx.x * static_cast<int64_t>(kColumns) + thread;
  if (thread < kColumns && mine < width) {
#pragma unroll
    for (int k = 0; k < kSums; ++k) {
      A sum = 0;
      for (int warp = 0; warp < kWarps; ++warp) sum += by_warp[k][warp][thread];
      parts[(k * static_cast<int64_t>(gridDim.y) + blockIdx.y) * width + mine] = sum;
    }
  }
}

template <typename G, int kSums>
struct SumOutputs {
  G* at[kSums];
};

// out[c] (+)= sum over parts; 32 columns of a block, whose 32 warps take parts in turn. The y of
// the grid says which of the sums.
template <typename G, int kSums>
__global__ void __launch_bounds__(1024)
    sum_parts_kernel(int64_t num_parts, int64_t width, const Acc<G>* all_parts,
                     SumOutputs<G, kSums> outputs, bool accumulate) {
  using A = Acc<G>;
  const A* parts = all_parts + blockIdx.y * num_parts * width;
  G* out = outputs.at[0];
#pragma unroll
  for (int k = 1; k < kSums; ++k) {
    if (blockIdx.y == k) out = outputs.at[k];
  }
  __shared__ A by_warp[32][33];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t first = blockIdx.x * int64_t{32};
  A sum = 0;
  if (first + lane < width) {
#pragma unroll 4
    for (int64_t part = warp; part < num_parts; part += 32) {
      sum += parts[part * width + first + lane];
    }
  }
  by_warp[warp][lane] = sum;
  __syncthreads();
  // Warp w has column w now, and lane l what warp l summed.
  const A total = warp_sum(by_warp[lane][warp]);
  const int64_t column = first + warp;
  if (lane == 0 && column < width) {
    out[column] = narrow<G>(accumulate ? widen(out[column]) + total : total);
  }
}

// outs[k][width] (+)= the sum over `num_parts` of parts[k, num_parts, width]; all of one type, for
// activations of type T.
template <typename T, size_t kSums>
void sum_parts(const char* op, const Gpu& gpu, int64_t num_parts, int64_t width,
               const Acc<T>* parts, const std::array<Tensor, kSums>& outs, bool accumulate) {
  const dim3 grid(static_cast<unsigned>(ceil_div(width, 32)), static_cast<unsigned>(kSums));
  with_gradient<T>(outs[0], [&](auto gradient) {
    using G = typename decltype(gradient)::type;
    SumOutputs<G, static_cast<int>(kSums)> outputs;
    for (size_t k = 0; k < kSums; ++k) outputs.at[k] = outs[k].template as<G>();
    sum_parts_kernel<G>
        <<<grid, 1024, 0, gpu.stream()>>>(num_parts, width, parts, outputs, accumulate);
  });
  check_launch(op);
}

// outs[k][width] (+)= the sum over rows of the k-th of `terms` of T, which come N at a time.
template <typename T, int N, size_t kSums, typename Terms>
void column_sums(const char* op, Context& ctx, int64_t rows, int64_t width, const Terms& terms,
                 const std::array<Tensor, kSums>& outs, bool accumulate) {
  using A = Acc<T>;
  if (width == 0) return;
  constexpr int kLanes = N == 1 ? 32 : 8;
  constexpr auto kEach = static_cast<int>(kSums);
  const int64_t num_parts = workspace::cuda::column_sum_parts(rows, width);
  constexpr DType kType = std::is_same_v<A, double> ? DType::kF64 : DType::kF32;
  const int64_t needed = workspace::cuda::column_sums(kType, rows, width, kEach);
  A* parts = Scratch(op, ctx.workspace, needed).take<A>(kEach * num_parts * width);
  const dim3 grid(static_cast<unsigned>(ceil_div(width, kLanes * N)),
                  static_cast<unsigned>(num_parts));
  part_sums_kernel<N, kEach, kLanes><<<grid, kSumThreads, 0, ctx.gpu->stream()>>>(
      rows, width, ceil_div(rows, num_parts), terms, parts);
  check_launch(op);
  sum_parts<T>(op, *ctx.gpu, num_parts, width, parts, outs, accumulate);
}

}  // namespace tessera::kernels::cuda
