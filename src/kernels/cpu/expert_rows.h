// Rows of experts: blocks of fixed capacity, in each the rows of one expert after the other.
#pragma once

#include "base/error.h"
#include "kernels/cpu/bodies.h"

namespace tessera::kernels::cpu {

// Blocks of `capacity` rows with `local` experts each.
struct ExpertBlocks {
  const int32_t* counts;
  int64_t blocks, local, capacity;

  // Calls f(block, expert, first row, number of rows) for every expert of every block.
  template <typename F>
  void for_each_run(const F& f) const {
    for (int64_t b = 0; b < blocks; ++b) {
      int64_t at = b * capacity;
      for (int64_t e = 0; e < local; ++e) {
        const int64_t count = counts[b * local + e];
        f(b, e, at, count);
        at += count;
      }
    }
  }
  [[nodiscard]] int64_t used(int64_t block) const {
    int64_t sum = 0;
    for (int64_t e = 0; e < local; ++e) sum += counts[block * local + e];
    return sum;
  }
};

inline int64_t last_dim(const Tensor& x) { return x.dim(x.num_dims - 1); }

// Throws InternalError where a block has more rows than fit.
inline ExpertBlocks blocks_of(const char* op, const Tensor& counts, int64_t num_rows) {
  const int64_t local = last_dim(counts), blocks = counts.numel() / local;
  const ExpertBlocks b{counts.as<int32_t>(), blocks, local, num_rows / blocks};
  for (int64_t i = 0; i < b.blocks; ++i) {
    TESSERA_CHECK(b.used(i) >= 0 && b.used(i) <= b.capacity, "{}: {} rows in a block of {}", op,
                  b.used(i), b.capacity);
  }
  return b;
}

// `count` rows of x from `first` on, as a matrix.
inline Tensor rows_of(const Tensor& x, int64_t first, int64_t count) {
  const int64_t width = last_dim(x);
  return {x.as<std::byte>() + first * width * size_bytes(x.dtype), x.dtype, {count, width}};
}

// The matrix of one expert.
inline Tensor expert_of(const Tensor& w, int64_t expert) {
  return {w.as<std::byte>() + expert * w.dim(1) * w.dim(2) * size_bytes(w.dtype),
          w.dtype,
          {w.dim(1), w.dim(2)}};
}

inline void zero_unused(Context& ctx, const ExpertBlocks& b, const Tensor& x) {
  for (int64_t i = 0; i < b.blocks; ++i) {
    Tensor rest = rows_of(x, i * b.capacity + b.used(i), b.capacity - b.used(i));
    if (rest.numel() > 0) cpu::fill_zero(ctx, rest);
  }
}

inline int64_t num_rows(const Tensor& x) { return x.numel() / last_dim(x); }

// product(rows of x, the matrix of their expert, the same rows of y) for every run of rows; the
// other rows of y become zero.
template <typename Product>
void multiply_runs(Context& ctx, const ExpertBlocks& b, const Tensor& x, const Tensor& w,
                   const Tensor& y, const Product& product) {
  b.for_each_run([&](int64_t /*block*/, int64_t expert, int64_t first, int64_t count) {
    if (count == 0) return;
    Tensor out = rows_of(y, first, count);
    product(rows_of(x, first, count), expert_of(w, expert), out);
  });
  zero_unused(ctx, b, y);
}

}  // namespace tessera::kernels::cpu
