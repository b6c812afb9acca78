// Products and activations of experts: one call of the dense kernel per run of rows of one expert.
#include "base/error.h"
#include "kernels/cpu/bodies.h"

namespace tessera::kernels::cpu {
namespace {

// Blocks of `capacity` rows with `local` experts each.
struct Blocks {
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

int64_t last_dim(const Tensor& x) { return x.dim(x.num_dims - 1); }

// Throws InternalError where a block has more rows than fit.
Blocks blocks_of(const char* op, const Tensor& counts, int64_t num_rows) {
  const int64_t local = last_dim(counts), blocks = counts.numel() / local;
  const Blocks b{counts.as<int32_t>(), blocks, local, num_rows / blocks};
  for (int64_t i = 0; i < b.blocks; ++i) {
    TESSERA_CHECK(b.used(i) >= 0 && b.used(i) <= b.capacity, "{}: {} rows in a block of {}", op,
                  b.used(i), b.capacity);
  }
  return b;
}

// `count` rows of x from `first` on, as a matrix.
Tensor rows_of(const Tensor& x, int64_t first, int64_t count) {
  const int64_t width = last_dim(x);
  return {x.as<std::byte>() + first * width * size_bytes(x.dtype), x.dtype, {count, width}};
}

// The matrix of one expert.
Tensor expert_of(const Tensor& w, int64_t expert) {
  return {w.as<std::byte>() + expert * w.dim(1) * w.dim(2) * size_bytes(w.dtype),
          w.dtype,
          {w.dim(1), w.dim(2)}};
}

void zero_unused(Context& ctx, const Blocks& b, const Tensor& x) {
  for (int64_t i = 0; i < b.blocks; ++i) {
    Tensor rest = rows_of(x, i * b.capacity + b.used(i), b.capacity - b.used(i));
    if (rest.numel() > 0) cpu::fill_zero(ctx, rest);
  }
}

int64_t num_rows(const Tensor& x) { return x.numel() / last_dim(x); }

// product(rows of x, the matrix of their expert, the same rows of y) for every run of rows; the
// other rows of y become zero.
template <typename Product>
void multiply_runs(Context& ctx, const Blocks& b, const Tensor& x, const Tensor& w, const Tensor& y,
                   const Product& product) {
  b.for_each_run([&](int64_t /*block*/, int64_t expert, int64_t first, int64_t count) {
    if (count == 0) return;
    Tensor out = rows_of(y, first, count);
    product(rows_of(x, first, count), expert_of(w, expert), out);
  });
  zero_unused(ctx, b, y);
}

}  // namespace

void expert_linear(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& counts,
                   Tensor& y) {
  const Blocks b = blocks_of("expert_linear", counts, num_rows(x));
  multiply_runs(ctx, b, x, w, y, [&](const Tensor& rows, const Tensor& matrix, Tensor& out) {
    cpu::linear(ctx, rows, matrix, out);
  });
}

void expert_linear_dx(Context& ctx, const Tensor& dy, const Tensor& w, const Tensor& counts,
                      Tensor& dx) {
  const Blocks b = blocks_of("expert_linear_dx", counts, num_rows(dy));
  multiply_runs(ctx, b, dy, w, dx, [&](const Tensor& rows, const Tensor& matrix, Tensor& out) {
    cpu::linear_dx(ctx, rows, matrix, out, false);
  });
}

void expert_linear_dw(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& counts,
                      Tensor& dw, bool accumulate) {
  const Blocks b = blocks_of("expert_linear_dw", counts, num_rows(dy));
  b.for_each_run([&](int64_t block, int64_t expert, int64_t first, int64_t count) {
    const bool add = accumulate || block > 0;  // the first block starts the sum
    if (count == 0 && add) return;
    Tensor out = expert_of(dw, expert);
    cpu::linear_dw(ctx, rows_of(dy, first, count), rows_of(x, first, count), out, add);
  });
}

void expert_swiglu(Context& ctx, const Tensor& gate_up, const Tensor& counts, Tensor& h) {
  const Blocks b = blocks_of("expert_swiglu", counts, num_rows(gate_up));
  for (int64_t i = 0; i < b.blocks; ++i) {
    Tensor out = rows_of(h, i * b.capacity, b.used(i));
    cpu::swiglu(ctx, rows_of(gate_up, i * b.capacity, b.used(i)), out);
  }
  zero_unused(ctx, b, h);
}

void expert_swiglu_grad(Context& ctx, const Tensor& dh, const Tensor& gate_up, const Tensor& counts,
                        Tensor& d_gate_up) {
  const Blocks b = blocks_of("expert_swiglu_grad", counts, num_rows(gate_up));
  for (int64_t i = 0; i < b.blocks; ++i) {
    Tensor out = rows_of(d_gate_up, i * b.capacity, b.used(i));
    cpu::swiglu_grad(ctx, rows_of(dh, i * b.capacity, b.used(i)),
                     rows_of(gate_up, i * b.capacity, b.used(i)), out);
  }
  zero_unused(ctx, b, d_gate_up);
}

}  // namespace tessera::kernels::cpu
