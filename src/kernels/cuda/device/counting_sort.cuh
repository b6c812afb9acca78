// Stable sorting by keys below a small number: tiles of elements count their keys, then every
// element learns its place. Two launches; the same places every time.
#pragma once

#include "base/cuda_workspace.h"
#include "kernels/cuda/device/device.cuh"

namespace tessera::kernels::cuda {

constexpr int kTileThreads = 256;
constexpr int kTileWarps = kTileThreads / 32;
constexpr int kTileRounds = workspace::cuda::kSortTile / kTileThreads;
// Shared memory holds a count per warp and key, and three numbers per key.
constexpr int kMostKeys = 4096;

inline size_t place_tiles_bytes(int num_keys) {
  return static_cast<size_t>(num_keys) * (kTileWarps + 3) * sizeof(int32_t);
}

// counts[tile][key]. key(i) below num_keys; others are not counted.
template <typename Key>
__global__ void __launch_bounds__(kTileThreads)
    count_tiles(int64_t count, int num_keys, int32_t* counts, Key key) {
  extern __shared__ int32_t tile_counts[];
  for (int k = static_cast<int>(threadIdx.x); k < num_keys; k += kTileThreads) tile_counts[k] = 0;
  __syncthreads();
  const int64_t first = blockIdx.x * workspace::cuda::kSortTile;
  uint32_t keys[kTileRounds];
#pragma unroll
  for (int r = 0; r < kTileRounds; ++r) {
    const int64_t i = first + r * kTileThreads + threadIdx.x;
    keys[r] = i < count ? static_cast<uint32_t>(key(i)) : UINT32_MAX;
  }
#pragma unroll
  for (int r = 0; r < kTileRounds; ++r) {
    if (keys[r] < static_cast<uint32_t>(num_keys)) atomicAdd(&tile_counts[keys[r]], 1);
  }
  __syncthreads();
  for (int k = static_cast<int>(threadIdx.x); k < num_keys; k += kTileThreads) {
    counts[static_cast<int64_t>(blockIdx.x) * num_keys + k] = tile_counts[k];
  }
}

// The sum of all x before each, in their order: begins[0] = 0. By the whole block.
__device__ inline void exclusive_sums(int count, const int32_t* x, int32_t* begins) {
  __shared__ int32_t warp_totals[kTileWarps];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int share = (count + kTileThreads - 1) / kTileThreads;
  const int first = min(count, static_cast<int>(threadIdx.x) * share);
  const int last = min(count, first + share);
  int32_t mine = 0;
  for (int i = first; i < last; ++i) mine += x[i];
  int32_t until = mine;  // of this warp, this thread's included
  for (int offset = 1; offset < 32; offset *= 2) {
    const int32_t other = __shfl_up_sync(0xffffffffU, until, offset);
    if (lane >= offset) until += other;
  }
  if (lane == 31) warp_totals[warp] = until;
  __syncthreads();
  int32_t at = until - mine;
  for (int w = 0; w < warp; ++w) at += warp_totals[w];
  for (int i = first; i < last; ++i) {
    begins[i] = at;
    at += x[i];
  }
  __syncthreads();
}

// What a tile knows of all of them.
struct KeyTotals {
  const int32_t* totals;  // elements with each key
  const int32_t* begins;  // elements with a smaller key
};

// totals[k] += what all tiles counted, before[k] += what those before this one did. By the whole
// block: threads take numbers in turn; sums of integers come out the same in any order.
__device__ inline void add_tiles(int num_keys, const int32_t* counts, int32_t* totals,
                                 int32_t* before) {
  constexpr int kInFlight = 8;
  const int64_t all = static_cast<int64_t>(gridDim.x) * num_keys;
  int key = static_cast<int>(threadIdx.x) % num_keys;
  unsigned tile = threadIdx.x / static_cast<unsigned>(num_keys);
  for (int64_t i = threadIdx.x; i < all; i += kInFlight * kTileThreads) {
    int32_t n[kInFlight];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      n[j] = i + j * kTileThreads < all ? counts[i + j * kTileThreads] : 0;
    }
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      if (n[j] != 0) atomicAdd(&totals[key], n[j]);
      if (n[j] != 0 && tile < blockIdx.x) atomicAdd(&before[key], n[j]);
      key += kTileThreads % num_keys;
      tile += static_cast<unsigned>(kTileThreads / num_keys);
      if (key >= num_keys) {
        key -= num_keys;
        ++tile;
      }
    }
  }
}

// Calls place(i, key(i), number of elements before i in the sorted order, KeyTotals) for every
// element that has a key, after begin(KeyTotals) by all threads of every tile.
template <typename Key, typename Begin, typename Place>
__global__ void __launch_bounds__(kTileThreads)
    place_tiles(int64_t count, int num_keys, const int32_t* counts, Key key, Begin begin,
                Place place) {
  extern __shared__ int32_t shared[];
  int32_t* totals = shared;
  int32_t* begins = totals + num_keys;
  int32_t* before = begins + num_keys;  // elements with this key in tiles before this one
  int32_t* by_warp = before + num_keys;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int i = static_cast<int>(threadIdx.x); i < num_keys * (kTileWarps + 3); i += kTileThreads) {
    shared[i] = 0;
  }
  __syncthreads();
  add_tiles(num_keys, counts, totals, before);
  __syncthreads();
  exclusive_sums(num_keys, totals, begins);
  const KeyTotals all{totals, begins};
  begin(all);

  // A warp has consecutive elements, 32 at a time: those with one key are ranked by lane.
  const int64_t first = blockIdx.x * workspace::cuda::kSortTile + warp * kTileRounds * 32 + lane;
  int32_t* mine = by_warp + warp * num_keys;
  uint32_t keys[kTileRounds];
  int32_t ranks[kTileRounds];
#pragma unroll
  for (int r = 0; r < kTileRounds; ++r) {
    const int64_t i = first + r * 32;
    keys[r] = i < count ? static_cast<uint32_t>(key(i)) : UINT32_MAX;
  }
#pragma unroll
  for (int r = 0; r < kTileRounds; ++r) {
    const bool has_key = keys[r] < static_cast<uint32_t>(num_keys);
    const unsigned same = __match_any_sync(0xffffffffU, has_key ? keys[r] : UINT32_MAX);
    const int lower = __popc(same & ((1U << lane) - 1));
    ranks[r] = has_key ? mine[keys[r]] + lower : 0;
    __syncwarp();
    if (has_key && lower == 0) mine[keys[r]] += __popc(same);
    __syncwarp();
  }
  __syncthreads();
  for (int k = static_cast<int>(threadIdx.x); k < num_keys; k += kTileThreads) {
    int32_t at = begins[k] + before[k];
    for (int w = 0; w < kTileWarps; ++w) {
      const int32_t n = by_warp[w * num_keys + k];
      by_warp[w * num_keys + k] = at;
      at += n;
    }
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < kTileRounds; ++r) {
    if (keys[r] < static_cast<uint32_t>(num_keys)) {
      place(first + r * 32, static_cast<int>(keys[r]), mine[keys[r]] + ranks[r], all);
    }
  }
}

// counts: room for a number per tile and key.
template <typename Key, typename Begin, typename Place>
void counting_sort(const char* op, const Gpu& gpu, int64_t count, int num_keys, int32_t* counts,
                   const Key& key, const Begin& begin, const Place& place) {
  TESSERA_CHECK(count <= INT32_MAX && num_keys <= kMostKeys, "{}: {} elements, {} keys", op, count,
                num_keys);
  const auto tiles = static_cast<unsigned>(workspace::cuda::sort_tiles(count));
  const size_t bytes = place_tiles_bytes(num_keys);
  if (bytes > 48 * 1024) {
    tessera::cuda::check(
        cudaFuncSetAttribute(place_tiles<Key, Begin, Place>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        op);
  }
  count_tiles<<<tiles, kTileThreads, static_cast<size_t>(num_keys) * sizeof(int32_t),
                gpu.stream()>>>(count, num_keys, counts, key);
  check_launch(op);
  place_tiles<<<tiles, kTileThreads, bytes, gpu.stream()>>>(count, num_keys, counts, key, begin,
                                                            place);
  check_launch(op);
}

}  // namespace tessera::kernels::cuda
