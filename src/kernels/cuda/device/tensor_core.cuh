// A product of one tile, 128 x 128, by the tensor cores: a block of 4 warps, each with a quarter of
// 64 x 64; operands of 16 bits arrive in shared memory 32 steps of k at a time, several such slices
// ahead of the arithmetic.
#pragma once

#include "kernels/cuda/device/device.cuh"

namespace tessera::kernels::cuda::tensor_core {

constexpr int kThreads = 128;
constexpr int kTile = 128;                       // rows and columns of the result
constexpr int kDepth = 32;                       // of k in one slice
constexpr int kStages = 4;                       // slices in shared memory
constexpr int kSliceBytes = kTile * kDepth * 2;  // of one operand
constexpr int kSharedBytes = 2 * kStages * kSliceBytes;
constexpr int kChunk = 8;                                    // elements of 16 bytes
constexpr int kChunks = kTile * kDepth / kChunk / kThreads;  // of one slice, by one thread

// How an operand lies in memory, and so in a slice. 16 rows of a warp's access must not meet in a
// bank: chunks change places by row.
//   kAlongK: rows of the result, each 32 elements of k (4 chunks)
//   kAcrossK: 32 rows of k, each 128 elements of the result's side (16 chunks)
enum class Lie { kAlongK, kAcrossK };

template <Lie kLie>
__device__ constexpr uint32_t chunk_offset(int row, int chunk) {
  if constexpr (kLie == Lie::kAlongK) {
    return static_cast<uint32_t>(row * 64 + ((chunk ^ (row / 2 % 4)) * 16));
  } else {
    return static_cast<uint32_t>(row * 256 + ((chunk ^ (row % 8)) * 16));
  }
}

// Chunk j of a slice that this thread brings: its row and its place in the row.
template <Lie kLie>
__device__ inline int load_row(int j) {
  constexpr int kRowChunks = kLie == Lie::kAlongK ? kDepth / kChunk : kTile / kChunk;
  return static_cast<int>(threadIdx.x) / kRowChunks + j * (kThreads / kRowChunks);
}
template <Lie kLie>
__device__ inline int load_chunk() {
  constexpr int kRowChunks = kLie == Lie::kAlongK ? kDepth / kChunk : kTile / kChunk;
  return static_cast<int>(threadIdx.x) % kRowChunks;
}

// 16 bytes into shared memory without waiting; zeros where not `valid`. `from` is a readable
// address in any case.
__device__ inline void copy_chunk(uint32_t to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from),
               "r"(valid ? 16 : 0));
}
__device__ inline void end_slice() { asm volatile("cp.async.commit_group;\n" ::); }
template <int kLater>
__device__ inline void wait_for_slices() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kLater));
}

template <bool kTransposed>
__device__ inline void load_matrices(uint32_t (&to)[4], uint32_t from) {
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from));
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from));
  }
}

// c[16,8] += a[16,16] b[16,8]
template <typename T>
__device__ inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                    uint32_t b1) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// A warp's quarter of the tile: 4 x 8 pieces of 16 x 8.
struct Sums {
  float at[4][8][4];
};

// Adds the product of one slice. `a` and `b` are addresses in shared memory.
template <typename T, Lie kLieA, Lie kLieB>
__device__ inline void multiply_slice(uint32_t a, uint32_t b, Sums& sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int row0 = warp % 2 * 64, col0 = warp / 2 * 64;
  // Four 8 x 8 matrices in one load. Lanes 0-7 name the rows of the first, 8-15 of the second, …;
  // the order is that of the registers of multiply_add.
  const int down = lane % 16, beside = lane / 16;                                // a, along k
  const int down_first = lane % 8 + lane / 16 * 8, beside_first = lane / 8 % 2;  // b, along k
#pragma unroll
  for (int k = 0; k < kDepth; k += 16) {
    uint32_t left[4][4], right[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = row0 + i * 16;
      if constexpr (kLieA == Lie::kAlongK) {
        load_matrices<false>(left[i], a + chunk_offset<kLieA>(row + down, k / kChunk + beside));
      } else {
        load_matrices<true>(left[i],
                            a + chunk_offset<kLieA>(k + down_first, row / kChunk + beside_first));
      }
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int col = col0 + j * 16;
      if constexpr (kLieB == Lie::kAlongK) {
        load_matrices<false>(right[j],
                             b + chunk_offset<kLieB>(col + down_first, k / kChunk + beside_first));
      } else {
        load_matrices<true>(right[j], b + chunk_offset<kLieB>(k + down, col / kChunk + beside));
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        multiply_add<T>(sums.at[i][j], left[i], right[j / 2][j % 2 * 2],
                        right[j / 2][j % 2 * 2 + 1]);
      }
    }
  }
}

// The whole product: `load(s, a, b)` starts the copies of slice s to those addresses in shared
// memory and is called once for each s in order. Every thread of the block must call it; `shared`
// may be used again when it returns.
template <typename T, Lie kLieA, Lie kLieB, typename Load>
__device__ inline void multiply_tile(void* shared, int slices, Load&& load, Sums& sums) {
  const auto base = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const auto a_of = [&](int s) {
    return base + static_cast<uint32_t>(s % kStages) * (2 * kSliceBytes);
  };
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
#pragma unroll
      for (int r = 0; r < 4; ++r) sums.at[i][j][r] = 0;
    }
  }
  for (int s = 0; s < kStages - 1; ++s) {
    if (s < slices) load(s, a_of(s), a_of(s) + kSliceBytes);
    end_slice();
  }
  for (int s = 0; s < slices; ++s) {
    wait_for_slices<kStages - 2>();
    __syncthreads();  // slice s is there for all, and nobody reads the one that is loaded next
    const int next = s + kStages - 1;
    if (next < slices) load(next, a_of(next), a_of(next) + kSliceBytes);
    end_slice();
    multiply_slice<T, kLieA, kLieB>(a_of(s), a_of(s) + kSliceBytes, sums);
  }
  wait_for_slices<0>();
  __syncthreads();
}

// Calls f(row, column, value, value of the next column) for what this thread has of the tile.
template <typename F>
__device__ inline void for_each_pair(const Sums& sums, F&& f) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int row0 = warp % 2 * 64 + lane / 4, col0 = warp / 2 * 64 + lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      f(row0 + i * 16, col0 + j * 8, sums.at[i][j][0], sums.at[i][j][1]);
      f(row0 + i * 16 + 8, col0 + j * 8, sums.at[i][j][2], sums.at[i][j][3]);
    }
  }
}

}  // namespace tessera::kernels::cuda::tensor_core
