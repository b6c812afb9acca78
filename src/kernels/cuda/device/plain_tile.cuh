// A product of one tile, 64 x 64, by plain arithmetic, in any type: 4 x 4 of it by each of 256
// threads.
#pragma once

#include "kernels/cuda/device/tensor_core.cuh"

namespace tessera::kernels::cuda::plain {

using tensor_core::Lie;

constexpr int kTile = 64;
constexpr int kDepth = 16;
constexpr int kThreads = 256;

template <typename A>
struct Slice {
  A at[kDepth][kTile + 1];
};

template <typename A>
__device__ inline void multiply_slice(const Slice<A>& a, const Slice<A>& b, A (&sums)[4][4]) {
  const int row = static_cast<int>(threadIdx.x) / 16, col = static_cast<int>(threadIdx.x) % 16;
#pragma unroll
  for (int k = 0; k < kDepth; ++k) {
    A left[4], right[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) left[i] = a.at[k][row + 16 * i];
#pragma unroll
    for (int j = 0; j < 4; ++j) right[j] = b.at[k][col + 16 * j];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) sums[i][j] += left[i] * right[j];
    }
  }
}

// f(row, column, sum) for what this thread has of the tile.
template <typename A, typename F>
__device__ inline void for_each(const A (&sums)[4][4], F&& f) {
  const int row = static_cast<int>(threadIdx.x) / 16, col = static_cast<int>(threadIdx.x) % 16;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) f(row + 16 * i, col + 16 * j, sums[i][j]);
  }
}

// slice[k][i] = value(i, k), by neighbours in memory together: along k or across it.
template <Lie kLie, typename A, typename F>
__device__ inline void fill_slice(Slice<A>& slice, F&& value) {
  for (int e = static_cast<int>(threadIdx.x); e < kTile * kDepth; e += kThreads) {
    const int i = kLie == Lie::kAlongK ? e / kDepth : e % kTile;
    const int k = kLie == Lie::kAlongK ? e % kDepth : e / kTile;
    slice.at[k][i] = value(i, k);
  }
}

}  // namespace tessera::kernels::cuda::plain
