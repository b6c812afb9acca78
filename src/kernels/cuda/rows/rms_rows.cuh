// RMSNorm of one row and its gradients: of a token, or of one head of it.
#pragma once

#include "kernels/cuda/rows/norm_rows.cuh"

namespace tessera::kernels::cuda {

// y = x * rstd * w. The rows were read. Returns rstd.
template <typename Shape>
__device__ inline auto normalise_rms_row(int packs, const Row<Shape>& x, const WeightRow<Shape>& w,
                                         Acc<typename Shape::T> eps, typename Shape::T* y) {
  using T = typename Shape::T;
  using A = Acc<T>;
  constexpr int kN = Shape::kN;
  A squares = 0;
  Shape::for_each_pack(packs, [&](int k, int c) {
    const auto values = x.get(k, c);
#pragma unroll
    for (int j = 0; j < kN; ++j) squares += widen(values.at[j]) * widen(values.at[j]);
  });
  const auto width = static_cast<A>(static_cast<int64_t>(packs) * kN);
  const A rstd = A{1} / sqrt(Shape::sum(squares) / width + eps);
  Shape::for_each_pack(packs, [&](int k, int c) {
    const auto values = x.get(k, c), weights = w.get(k, c);
    A out[kN];
#pragma unroll
    for (int j = 0; j < kN; ++j) out[j] = widen(values.at[j]) * rstd * widen(weights.at[j]);
    store_pack(y + static_cast<int64_t>(c) * kN, narrow_pack<T>(out));
  });
  return rstd;
}

// dx = rstd * (g - x * rstd^2 * mean(g * x)) with g = dy * w, plus `residual` where there is
// one. The rows were read; dx may be the memory of any that only this row's threads use.
template <typename Shape>
__device__ inline void rms_row_grad(int packs, const Row<Shape>& dy, const Row<Shape>& x,
                                    const WeightRow<Shape>& w, Acc<typename Shape::T> rstd,
                                    const Row<Shape>& residual, bool has_residual,
                                    typename Shape::T* dx) {
  using T = typename Shape::T;
  using A = Acc<T>;
  constexpr int kN = Shape::kN;
  A dot = 0;
  Shape::for_each_pack(packs, [&](int k, int c) {
    const auto grads = dy.get(k, c), values = x.get(k, c), weights = w.get(k, c);
#pragma unroll
    for (int j = 0; j < kN; ++j) {
      dot += widen(grads.at[j]) * widen(weights.at[j]) * widen(values.at[j]);
    }
  });
  const auto width = static_cast<A>(static_cast<int64_t>(packs) * kN);
  const A factor = rstd * rstd * rstd * Shape::sum(dot) / width;
  Shape::for_each_pack(packs, [&](int k, int c) {
    const auto grads = dy.get(k, c), values = x.get(k, c), weights = w.get(k, c);
    A out[kN];
#pragma unroll
    for (int j = 0; j < kN; ++j) {
      out[j] = rstd * (widen(grads.at[j]) * widen(weights.at[j])) - factor * widen(values.at[j]);
    }
    store_row_grad<Shape>(out, residual, has_residual, k, c, dx);
  });
}

// Terms of a weight's gradient: dy * x * rstd.
template <typename T, int N>
struct RmsWeightTerms {
  struct Loaded {
    Packed<T, N> dy, x;
    Acc<T> rstd;
  };
  __device__ void add(const Loaded& loaded, Acc<T> (&sums)[N]) const {
    const Pack<T, N> grads = unpack(loaded.dy), values = unpack(loaded.x);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      sums[j] += widen(grads.at[j]) * (widen(values.at[j]) * loaded.rstd);
    }
  }
};

}  // namespace tessera::kernels::cuda
