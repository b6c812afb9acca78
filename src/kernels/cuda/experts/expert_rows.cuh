// Which rows belong to which expert, worked out on the GPU, where the counts are.
//
// The rows of one expert are taken from all blocks, one after another: row r of expert e. What the
// blocks do not use counts as the rows of one more expert, number L.
#pragma once

#include "kernels/cuda/device/device.cuh"

namespace tessera::kernels::cuda {

// B blocks of `capacity` rows, each with the rows of L experts; counts[B,L].
struct ExpertRows {
  const int32_t* counts;
  int blocks, local, capacity;

  [[nodiscard]] __host__ __device__ int64_t rows() const {
    return static_cast<int64_t>(blocks) * capacity;
  }
  // Tiles of `tile` rows that hold the rows of one expert each: at most so many.
  [[nodiscard]] int64_t max_tiles(int tile) const {
    return (rows() + (local + 1) * static_cast<int64_t>(tile - 1)) / tile;
  }
};

inline ExpertRows expert_rows(const char* op, const Tensor& counts, int64_t rows) {
  const int64_t local = counts.dim(counts.num_dims - 1), blocks = counts.numel() / local;
  TESSERA_CHECK(rows <= INT32_MAX / 2, "{}: {} rows are too many", op, rows);
  return {counts.as<int32_t>(), static_cast<int>(blocks), static_cast<int>(local),
          static_cast<int>(rows / blocks)};
}

struct Run {
  int first, count;  // rows
};
// What the counts say, or as much of it as fits: a block that overflowed is reported elsewhere.
__device__ inline int count_of(const ExpertRows& rows, int i) {
  return min(max(rows.counts[i], 0), rows.capacity);
}
__device__ inline Run run_of(const ExpertRows& rows, int block, int count_before, int count) {
  const int begin = min(count_before, rows.capacity);
  const int end = min(count_before + count, rows.capacity);
  return {block * rows.capacity + begin, end - begin};
}

// All experts, in shared memory. Its arrays have one entry per expert and block, experts outermost.
struct ExpertTable {
  int* count;
  int* first;         // row of the run
  int* rows_before;   // of the expert, in blocks before this
  int* tiles_before;  // [L+2], of experts before this

  static __host__ __device__ int64_t size_bytes(const ExpertRows& rows) {
    const int64_t entries = static_cast<int64_t>(rows.local + 1) * rows.blocks;
    return (3 * entries + rows.local + 2) * static_cast<int64_t>(sizeof(int));
  }
  // Every thread of the block must call it; the table can be read when it returns.
  static __device__ ExpertTable build(const ExpertRows& rows, int tile, void* memory) {
    const int experts = rows.local + 1, entries = experts * rows.blocks;
    const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
    auto* const ints = static_cast<int*>(memory);
    const ExpertTable t{ints, ints + entries, ints + 2 * entries, ints + 3 * entries};
    int* const given = t.rows_before;  // until it is computed
    for (int i = thread; i < rows.local * rows.blocks; i += threads) {
      given[i % rows.local * rows.blocks + i / rows.local] = count_of(rows, i);
    }
    __syncthreads();
    for (int i = thread; i < entries; i += threads) {
      const int expert = i / rows.blocks, block = i % rows.blocks;
      int before = 0;
      for (int e = 0; e < expert; ++e) before += given[e * rows.blocks + block];
      const int mine = expert < rows.local ? given[i] : rows.capacity;
      const Run run = run_of(rows, block, before, mine);
      t.first[i] = run.first;
      t.count[i] = run.count;
    }
    __syncthreads();
    for (int i = thread; i < entries; i += threads) {
      const int block = i % rows.blocks;
      int before = 0;
      for (int b = 0; b < block; ++b) before += t.count[i - block + b];
      t.rows_before[i] = before;
    }
    __syncthreads();
    for (int e = thread; e <= experts; e += threads) {
      int before = 0;
      for (int i = 0; i < e; ++i) before += (t.total(i, rows.blocks) + tile - 1) / tile;
      t.tiles_before[e] = before;
    }
    __syncthreads();
    return t;
  }
  __device__ int total(int expert, int blocks) const {
    const int last = (expert + 1) * blocks - 1;
    return rows_before[last] + count[last];
  }
  // The expert that has this tile of all.
  __device__ int expert_of(int64_t tile, int experts) const {
    int low = 0, high = experts - 1;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (tiles_before[middle] <= tile) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }
  // Where row r of the expert is, or -1 when it has no such row.
  __device__ int row_of(int expert, int r, int blocks) const {
    for (int i = expert * blocks; i < (expert + 1) * blocks; ++i) {
      const int within = r - rows_before[i];
      if (within < count[i]) return first[i] + within;
    }
    return -1;
  }
};

// The runs of one expert, in shared memory, one per block.
// Every thread of the block must call it; the runs can be read when it returns.
__device__ inline const Run* runs_of(const ExpertRows& rows, int expert, void* memory) {
  auto* const runs = static_cast<Run*>(memory);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  for (int b = static_cast<int>(threadIdx.x) / 32; b < rows.blocks; b += warps) {
    int before = 0;
    for (int e = lane; e < expert; e += 32) before += count_of(rows, b * rows.local + e);
    before = warp_sum(before);
    if (lane == 0) {
      runs[b] = run_of(rows, b, before, count_of(rows, b * rows.local + expert));
    }
  }
  __syncthreads();
  return runs;
}

}  // namespace tessera::kernels::cuda
