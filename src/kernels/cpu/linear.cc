// Linear layers: one product per member of the team, each on its own part of the output.
#include <algorithm>

#include "base/rounding.h"
#include "base/workspace.h"
#include "kernels/cpu/bodies.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/linear_tiles.h"
#include "kernels/scratch.h"

namespace tessera::kernels::cpu {
namespace {

// A stored matrix and whether the product reads it transposed.
template <typename T>
struct Operand {
  const T* data;
  int64_t ld;
  bool transposed;
  // Element (row, col) of the matrix as the product sees it.
  [[nodiscard]] const T* at(int64_t row, int64_t col) const {
    return transposed ? data + col * ld + row : data + row * ld + col;
  }
};

// c[m,n] (+)= a[m,k] b[k,n]. Out is the type of c: that of a and b, or the accumulate type.
template <typename T, typename Out>
struct Product {
  Operand<T> a, b;
  Out* c;
  int64_t m, n, k;
  bool accumulate;
};

// Copies rows x cols of `source`, as stored, into a dense block.
template <typename T>
void widen_block(const T* source, int64_t ld, int64_t rows, int64_t cols, Acc<T>* block) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* from = source + r * ld;
    Acc<T>* to = block + r * cols;
    for (int64_t c = 0; c < cols; ++c) to[c] = widen(from[c]);
  }
}

// The block (row, col) + (rows, cols) of an operand in the arithmetic type.
template <typename T>
Operand<Acc<T>> widen_operand(const Operand<T>& x, int64_t row, int64_t col, int64_t rows,
                              int64_t cols, Acc<T>* block) {
  const int64_t stored_rows = x.transposed ? cols : rows;
  const int64_t stored_cols = x.transposed ? rows : cols;
  widen_block(x.at(row, col), x.ld, stored_rows, stored_cols, block);
  return {block, stored_cols, x.transposed};
}

template <typename A>
void multiply(const Operand<A>& a, const Operand<A>& b, int64_t m, int64_t n, int64_t k, A beta,
              A* c, int64_t ldc) {
  gemm<A>(a.transposed, b.transposed, m, n, k, A{1}, a.data, a.ld, b.data, b.ld, beta, c, ldc);
}

struct Range {
  int64_t begin, end;
};

// Same type all through: one call.
template <typename A>
void whole_product(const Product<A, A>& p, Range rows, Range cols) {
  const Operand<A> a{p.a.at(rows.begin, 0), p.a.ld, p.a.transposed};
  const Operand<A> b{p.b.at(0, cols.begin), p.b.ld, p.b.transposed};
  multiply(a, b, rows.end - rows.begin, cols.end - cols.begin, p.k, p.accumulate ? A{1} : A{0},
           p.c + rows.begin * p.n + cols.begin, p.n);
}

template <typename T>
void store_block(const float* block, int64_t rows, int64_t cols, T* c, int64_t ldc,
                 bool accumulate) {
  for (int64_t i = 0; i < rows; ++i) {
    const float* from = block + i * cols;
    T* to = c + i * ldc;
    if (accumulate) {
      for (int64_t j = 0; j < cols; ++j) to[j] = T(static_cast<float>(to[j]) + from[j]);
    } else {
      for (int64_t j = 0; j < cols; ++j) to[j] = T(from[j]);
    }
  }
}

// Narrow operands of products that do not take them: widened block by block. A narrow result is
// summed in f32 and rounded once.
template <typename T, typename Out>
void blocked_product(const Product<T, Out>& p, Range rows, Range cols, float* blocks) {
  constexpr bool kNarrow = kIsNarrow<Out>;
  const int64_t max_rows = std::min(p.m, workspace::kLinearRows);
  const int64_t max_cols = std::min(p.n, workspace::kLinearCols);
  const int64_t max_depth = std::min(p.k, workspace::kLinearDepth);
  float* block_a = blocks;
  float* block_b = block_a + round_up(max_rows * max_depth, 16);
  float* block_c = block_b + round_up(max_cols * max_depth, 16);
  for (int64_t col = cols.begin; col < cols.end; col += max_cols) {
    const int64_t n = std::min(max_cols, cols.end - col);
    for (int64_t row = rows.begin; row < rows.end; row += max_rows) {
      const int64_t m = std::min(max_rows, rows.end - row);
      float* c = block_c;
      int64_t ldc = n;
      if constexpr (!kNarrow) {
        c = p.c + row * p.n + col;
        ldc = p.n;
      }
      for (int64_t depth = 0; depth < p.k; depth += max_depth) {
        const int64_t k = std::min(max_depth, p.k - depth);
        const auto a = widen_operand(p.a, row, depth, m, k, block_a);
        const auto b = widen_operand(p.b, depth, col, k, n, block_b);
        const bool add = depth > 0 || (!kNarrow && p.accumulate);
        multiply(a, b, m, n, k, add ? 1.0F : 0.0F, c, ldc);
      }
      if constexpr (kNarrow) store_block(block_c, m, n, p.c + row * p.n + col, p.n, p.accumulate);
    }
  }
}

// The same where products widen for themselves: whole depths, and a narrow result block by block.
template <typename T, typename Out>
void narrow_product(const Product<T, Out>& p, Range rows, Range cols, float* block) {
  const auto multiply_part = [&](int64_t row, int64_t m, int64_t col, int64_t n, bool add, float* c,
                                 int64_t ldc) {
    gemm_narrow<T>(p.a.transposed, p.b.transposed, m, n, p.k, p.a.at(row, 0), p.a.ld,
                   p.b.at(0, col), p.b.ld, add, c, ldc);
  };
  if constexpr (!kIsNarrow<Out>) {
    multiply_part(rows.begin, rows.end - rows.begin, cols.begin, cols.end - cols.begin,
                  p.accumulate, p.c + rows.begin * p.n + cols.begin, p.n);
  } else {
    for (int64_t col = cols.begin; col < cols.end; col += workspace::kLinearCols) {
      const int64_t n = std::min(workspace::kLinearCols, cols.end - col);
      for (int64_t row = rows.begin; row < rows.end; row += workspace::kLinearRows) {
        const int64_t m = std::min(workspace::kLinearRows, rows.end - row);
        multiply_part(row, m, col, n, /*add=*/false, block, n);
        store_block(block, m, n, p.c + row * p.n + col, p.n, p.accumulate);
      }
    }
  }
}

constexpr int64_t kGrain = 16;

// Part i of `parts` of a side of the output.
Range part_of(int64_t length, int64_t i, int64_t parts) {
  const int64_t count = (length + kGrain - 1) / kGrain;
  return {std::min(length, count * i / parts * kGrain),
          std::min(length, count * (i + 1) / parts * kGrain)};
}

// How many parts rows are cut into; columns into size / that. Every member packs its rows of a and
// its columns of b for itself, an element of which takes as long as some sixteen products, or four
// where rows are read in place: so parts are about square where members are many.
int64_t parts_of_rows(int64_t m, int64_t n, int64_t size, bool rows_in_place) {
  constexpr int64_t kPacking = 16;
  const int64_t reading_rows = rows_in_place ? 4 : kPacking;
  const auto largest = [](int64_t length, int64_t parts) {
    return ceil_div(ceil_div(length, kGrain), parts) * kGrain;
  };
  int64_t best = 1, least = 0;
  for (int64_t parts = 1; parts <= size; ++parts) {
    if (size % parts != 0) continue;
    const int64_t rows = largest(m, parts), cols = largest(n, size / parts);
    const int64_t cost = rows * cols + reading_rows * rows + kPacking * cols;
    if (parts == 1 || cost < least) best = parts, least = cost;
  }
  return best;
}

// Where there are tiles, and room to pack for all members together.
template <typename T, typename Out>
bool product_on_tiles(Context& ctx, const Product<T, Out>& p, std::span<std::byte> room) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    const auto matrix = [](const Operand<T>& x) {
      return typename TiledProduct<Out>::Matrix{x.data, x.transposed ? 1 : x.ld,
                                                x.transposed ? x.ld : 1};
    };
    return multiply_packed_together<Out>(
        ctx.workers, {matrix(p.a), matrix(p.b), p.c, p.m, p.n, p.k, p.accumulate}, room);
  }
  return false;
}

// Members share out the output as a grid.
template <typename T, typename Out>
void run_product(Context& ctx, const char* op, const Product<T, Out>& p, int64_t needed) {
  use_one_blas_thread();
  if (p.k == 0) {
    if (!p.accumulate) std::fill(p.c, p.c + p.m * p.n, Out{});
    return;
  }
  Scratch scratch(op, ctx.workspace, needed);
  const int64_t per_member = needed / ctx.workers.size() / static_cast<int64_t>(sizeof(Acc<T>));
  auto* blocks = scratch.take<Acc<T>>(per_member * ctx.workers.size());
  const std::span room(blocks, static_cast<size_t>(per_member * ctx.workers.size()));
  if (product_on_tiles(ctx, p, std::as_writable_bytes(room))) return;
  const int64_t down =
      parts_of_rows(p.m, p.n, ctx.workers.size(), !p.a.transposed && !kIsNarrow<T>);
  const int64_t across = ctx.workers.size() / down;
  ctx.workers.run([&](int member) {
    const Range rows = part_of(p.m, member / across, down);
    const Range cols = part_of(p.n, member % across, across);
    if (rows.begin == rows.end || cols.begin == cols.end) return;
    if constexpr (kIsNarrow<T>) {
      float* const mine = blocks + member * per_member;
      gemm_takes_narrow() ? narrow_product(p, rows, cols, mine)
                          : blocked_product(p, rows, cols, mine);
    } else {
      whole_product(p, rows, cols);
    }
  });
}

}  // namespace

void linear(Context& ctx, const Tensor& x, const Tensor& w, Tensor& y) {
  constexpr const char* kOp = "linear";
  const int64_t tokens = x.dim(0), in = x.dim(1), out = w.dim(0);
  dispatch(kOp, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Product<T, T> p{
        {x.as<T>(), in, false}, {w.as<T>(), in, true}, y.as<T>(), tokens, out, in, false};
    run_product(ctx, kOp, p, workspace::linear(x.dtype, tokens, out, in, ctx.workers.size()));
  });
}

void linear_dx(Context& ctx, const Tensor& dy, const Tensor& w, Tensor& dx, bool accumulate) {
  constexpr const char* kOp = "linear_dx";
  const int64_t tokens = dy.dim(0), out = dy.dim(1), in = w.dim(1);
  dispatch(kOp, dy.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Product<T, T> p{
        {dy.as<T>(), out, false}, {w.as<T>(), in, false}, dx.as<T>(), tokens, in, out, accumulate};
    run_product(ctx, kOp, p, workspace::linear(dy.dtype, tokens, out, in, ctx.workers.size()));
  });
}

void linear_dw(Context& ctx, const Tensor& dy, const Tensor& x, Tensor& dw, bool accumulate) {
  constexpr const char* kOp = "linear_dw";
  const int64_t tokens = dy.dim(0), out = dy.dim(1), in = x.dim(1);
  dispatch(kOp, dy.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_gradient<T>(dw, [&](auto gradient) {
      using G = typename decltype(gradient)::type;
      const Product<T, G> p{
          {dy.as<T>(), out, true}, {x.as<T>(), in, false}, dw.as<G>(), out, in, tokens, accumulate};
      run_product(ctx, kOp, p, workspace::linear(dy.dtype, tokens, out, in, ctx.workers.size()));
    });
  });
}

}  // namespace tessera::kernels::cpu
