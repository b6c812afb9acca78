// Kernels that give every token or row a warp of its own.
#pragma once

#include "kernels/cuda/device/device.cuh"

namespace tessera::kernels::cuda {

constexpr int kWarps = 8;  // of a block
constexpr int kThreads = kWarps * 32;

// The place of this thread's warp among all of the grid along x.
__device__ inline int64_t warp_index() {
  return blockIdx.x * static_cast<int64_t>(kWarps) + threadIdx.x / 32;
}
__device__ inline int lane_index() { return static_cast<int>(threadIdx.x) % 32; }
inline unsigned blocks_for(int64_t warps) { return static_cast<unsigned>(ceil_div(warps, kWarps)); }

}  // namespace tessera::kernels::cuda
