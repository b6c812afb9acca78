// What norms of rows share: rows are read, added to others before the norm and to the residual's
// gradient behind it. What a norm does with a row is a struct Norm of its own:
//   aligned(width)                                   whether its vectors can be read in packs
//   normalise<Shape>(row, packs, x, y)               y = norm(x), and what the backward pass needs
// and for the backward pass
//   gradient<Shape>(row, packs, dy, x, residual, has_residual, dx)
#pragma once

#include "kernels/cuda/rows/column_sums.cuh"
#include "kernels/cuda/rows/row_groups.cuh"

namespace tessera::kernels::cuda {

template <typename T, typename Norm>
struct NormForward {
  int64_t tokens, width;
  const T *a, *b;  // with b: the norm of a + b, which is stored as sum
  T *sum, *y;
  Norm norm;
};

template <typename Shape, typename Norm, bool kAdd>
__global__ void __launch_bounds__(Shape::kBlock, Shape::kBlocks)
    norm_kernel(NormForward<typename Shape::T, Norm> f) {
  using T = typename Shape::T;
  using A = Acc<T>;
  using Values = Pack<T, Shape::kN>;
  constexpr int kN = Shape::kN;
  const int64_t row = Shape::row();
  if (row >= f.tokens) return;
  const int64_t at = row * f.width;
  const int packs = static_cast<int>(f.width / kN);
  Row<Shape> x((kAdd ? f.sum : f.a) + at);
  if constexpr (kAdd) {
    Row<Shape> a(f.a + at), b(f.b + at);
    Shape::for_each_pack(packs, [&](int k, int c) {
      a.read(k, c);
      b.read(k, c);
    });
    Shape::for_each_pack(packs, [&](int k, int c) {
      const Values left = a.get(k, c), right = b.get(k, c);
      A sums[kN];
#pragma unroll
      for (int j = 0; j < kN; ++j) sums[j] = widen(left.at[j]) + widen(right.at[j]);
      const Values sum = narrow_pack<T>(sums);
      store_pack(f.sum + at + static_cast<int64_t>(c) * kN, sum);
      x.set(k, sum);
    });
  } else {
    Shape::for_each_pack(packs, [&](int k, int c) { x.read(k, c); });
  }
  f.norm.template normalise<Shape>(row, packs, x, f.y + at);
}

template <typename T, typename Norm>
void run_norm(const char* op, const Gpu& gpu, const NormForward<T, Norm>& f) {
  if (f.tokens == 0) return;
  const bool aligned = packable<T>(f.width, f.a, f.b, f.sum, f.y) && f.norm.aligned(f.width);
  with_row_shape<T>(f.width, aligned, [&](auto shape) {
    using Shape = decltype(shape);
    const unsigned blocks = blocks_for_rows<Shape>(f.tokens);
    if (f.b != nullptr) {
      norm_kernel<Shape, Norm, true><<<blocks, Shape::kBlock, 0, gpu.stream()>>>(f);
    } else {
      norm_kernel<Shape, Norm, false><<<blocks, Shape::kBlock, 0, gpu.stream()>>>(f);
    }
  });
  check_launch(op);
}

template <typename T, typename Norm>
struct NormBackward {
  int64_t tokens, width;
  const T *dy, *x;
  const T* residual;  // null: none
  T* dx;
  Norm norm;
};

template <typename Shape, typename Norm>
__global__ void __launch_bounds__(Shape::kBlock, Shape::kBlocks)
    norm_grad_kernel(NormBackward<typename Shape::T, Norm> b) {
  const int64_t row = Shape::row();
  if (row >= b.tokens) return;
  const int64_t at = row * b.width;
  const int packs = static_cast<int>(b.width / Shape::kN);
  Row<Shape> dy(b.dy + at), x(b.x + at), residual(b.residual + at);
  Shape::for_each_pack(packs, [&](int k, int c) {
    dy.read(k, c);
    x.read(k, c);
    if (b.residual != nullptr) residual.read(k, c);
  });
  b.norm.template gradient<Shape>(row, packs, dy, x, residual, b.residual != nullptr, b.dx + at);
}

template <typename T, typename Norm>
void run_norm_grad(const char* op, const Gpu& gpu, const NormBackward<T, Norm>& b) {
  if (b.tokens == 0) return;
  const bool aligned = packable<T>(b.width, b.dy, b.x, b.residual, b.dx) && b.norm.aligned(b.width);
  with_row_shape<T>(b.width, aligned, [&](auto shape) {
    using Shape = decltype(shape);
    norm_grad_kernel<Shape, Norm>
        <<<blocks_for_rows<Shape>(b.tokens), Shape::kBlock, 0, gpu.stream()>>>(b);
  });
  check_launch(op);
}

// out + the residual's gradient, where there is one, becomes pack c of a row of dx.
template <typename Shape>
__device__ inline void store_row_grad(Acc<typename Shape::T> (&out)[Shape::kN],
                                      const Row<Shape>& residual, bool has_residual, int k, int c,
                                      typename Shape::T* dx) {
  if (has_residual) {
    const auto kept = residual.get(k, c);
#pragma unroll
    for (int j = 0; j < Shape::kN; ++j) out[j] += widen(kept.at[j]);
  }
  store_pack(dx + static_cast<int64_t>(c) * Shape::kN, narrow_pack<typename Shape::T>(out));
}

}  // namespace tessera::kernels::cuda
