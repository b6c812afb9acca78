// Rows that are summed and then written: a group of threads shares a row out in packs, and keeps
// its packs in registers where they fit, so that memory is read once.
#pragma once

#include "kernels/cuda/device/packs.cuh"

namespace tessera::kernels::cuda {

// kThreads threads per row, each with packs i, i + kThreads, … of N elements. kHeld: the most packs
// of a thread; 0: any number, and the packs are read again at every use.
template <typename T_, int kN_, int kThreads_, int kHeld_>
struct RowShape {
  using T = T_;
  static constexpr int kN = kN_, kThreads = kThreads_, kHeld = kHeld_;
  static constexpr int kBlock = std::max(kThreads, 128);
  static constexpr int kRows = kBlock / kThreads;  // of one block
  // At once on a multiprocessor: enough threads to wait for memory, each with the registers it
  // needs.
  static constexpr int kBlocks = std::max(1, 640 / kBlock);
  static_assert(kRows == 1 || kThreads <= 32, "sums are within a warp or over the whole block");

  // The row of this thread. Rows may end within a block of several: then all threads of a row
  // leave.
  __device__ static int64_t row() {
    return blockIdx.x * static_cast<int64_t>(kRows) + threadIdx.x / kThreads;
  }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kThreads; }

  // f(k, c) for pack c of a row of `packs`, the k-th of this thread.
  template <typename F>
  __device__ static void for_each_pack(int packs, const F& f) {
    if constexpr (kHeld > 0) {
#pragma unroll
      for (int k = 0; k < kHeld; ++k) {
        const int c = lane() + k * kThreads;
        if (c < packs) f(k, c);
      }
    } else {
      for (int c = lane(); c < packs; c += kThreads) f(0, c);
    }
  }

  // The sum of `x` over the row's threads, to all of them.
  template <typename A>
  __device__ static A sum(A x) {
    if constexpr (kThreads <= 32) {
      const unsigned all = 0xffffffffU >> (32 - kThreads);
      const unsigned ours = all << (threadIdx.x % 32 / kThreads * kThreads);
#pragma unroll
      for (int offset = kThreads / 2; offset > 0; offset /= 2) {
        x += __shfl_xor_sync(ours, x, offset);
      }
      return x;
    } else {
      return block_sum<kThreads>(x);
    }
  }
};

// One row as its threads see it: in registers, or in memory all the time.
template <typename Shape, bool kHold = (Shape::kHeld > 0)>
class Row {
 public:
  using T = typename Shape::T;
  using Values = Pack<T, Shape::kN>;

  __device__ explicit Row(const T* memory) : memory_(memory) {}
  __device__ void read(int k, int c) {
    if constexpr (kHold) held_[k] = load_packed<Shape::kN>(at(c));
  }
  // For rows that are made here; they must go to memory too.
  __device__ void set(int k, const Values& values) {
    if constexpr (kHold) held_[k] = {std::bit_cast<Word<T, Shape::kN>>(values)};
  }
  __device__ Values get(int k, int c) const {
    if constexpr (kHold) {
      return unpack(held_[k]);
    } else {
      return load_pack<Shape::kN>(at(c));
    }
  }

 private:
  __device__ const T* at(int c) const { return memory_ + static_cast<int64_t>(c) * Shape::kN; }
  const T* memory_;
  Packed<T, Shape::kN> held_[kHold ? Shape::kHeld : 1];
};

// Weights that all rows share stay in the nearest cache: the registers are for what comes from
// afar.
template <typename Shape>
using WeightRow = Row<Shape, false>;

// Calls f(shape) with the shape for rows of `width`, all of whose addresses are `aligned` or not.
// A warp per row needs no barriers; with more packs each thread would have too many registers.
template <typename T, typename F>
void with_row_shape(int64_t width, bool aligned, const F& f) {
  constexpr int kN = kPack<T>;
  if (!aligned) return f(RowShape<T, 1, 256, 0>{});
  const int64_t packs = width / kN;
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {  // the type of speed has a shape of GPT-2's own
    if (packs <= 32 * 3) return f(RowShape<T, kN, 32, 3>{});
  }
  if (packs <= 32 * 4) return f(RowShape<T, kN, 32, 4>{});
  if (packs <= 128 * 2) return f(RowShape<T, kN, 128, 2>{});
  if (packs <= 128 * 4) return f(RowShape<T, kN, 128, 4>{});
  if (packs <= 512 * 4) return f(RowShape<T, kN, 512, 4>{});
  return f(RowShape<T, kN, 512, 0>{});
}

template <typename Shape>
unsigned blocks_for_rows(int64_t rows) {
  return static_cast<unsigned>(ceil_div(rows, Shape::kRows));
}

}  // namespace tessera::kernels::cuda
