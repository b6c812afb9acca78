#include "kernels/cuda/bodies.h"
#include "kernels/cuda/rows/norm_rows.cuh"

namespace tessera::kernels::cuda {
namespace {

template <typename T>
struct LayerNorm {
  const T *w, *b;
  Acc<T>* stats;
  Acc<T> eps;

  [[nodiscard]] bool aligned(int64_t width) const { return packable<T>(width, w, b); }
  template <typename Shape>
  __device__ void normalise(int64_t row, int packs, const Row<Shape>& x, T* y) const {
    using A = Acc<T>;
    constexpr int kN = Shape::kN;
    const auto count = static_cast<A>(static_cast<int64_t>(packs) * kN);
    const WeightRow<Shape> weight(w), bias(b);
    A total = 0;
    Shape::for_each_pack(packs, [&](int k, int c) {
      const auto values = x.get(k, c);
#pragma unroll
      for (int j = 0; j < kN; ++j) total += widen(values.at[j]);
    });
    const A mean = Shape::sum(total) / count;
    A squares = 0;
    Shape::for_each_pack(packs, [&](int k, int c) {
      const auto values = x.get(k, c);
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        const A centred = widen(values.at[j]) - mean;
        squares += centred * centred;
      }
    });
    const A rstd = A{1} / sqrt(Shape::sum(squares) / count + eps);
    Shape::for_each_pack(packs, [&](int k, int c) {
      const auto values = x.get(k, c), weights = weight.get(k, c), biases = bias.get(k, c);
      A out[kN];
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        out[j] = (widen(values.at[j]) - mean) * rstd * widen(weights.at[j]) + widen(biases.at[j]);
      }
      store_pack(y + static_cast<int64_t>(c) * kN, narrow_pack<T>(out));
    });
    if (Shape::lane() == 0) {
      stats[2 * row] = mean;
      stats[2 * row + 1] = rstd;
    }
  }
};

// dx = rstd * (g - mean(g) - xhat * mean(g * xhat)) with g = dy * w, xhat = (x - mean) * rstd.
template <typename T>
struct LayerNormGrad {
  const T* w;
  const Acc<T>* stats;

  [[nodiscard]] bool aligned(int64_t width) const { return packable<T>(width, w); }
  template <typename Shape>
  __device__ void gradient(int64_t row, int packs, const Row<Shape>& dy, const Row<Shape>& x,
                           const Row<Shape>& residual, bool has_residual, T* dx) const {
    using A = Acc<T>;
    constexpr int kN = Shape::kN;
    const auto count = static_cast<A>(static_cast<int64_t>(packs) * kN);
    const A mean = stats[2 * row], rstd = stats[2 * row + 1];
    const WeightRow<Shape> weight(w);
    A sum_g = 0, sum_gx = 0;
    Shape::for_each_pack(packs, [&](int k, int c) {
      const auto grads = dy.get(k, c), values = x.get(k, c), weights = weight.get(k, c);
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        const A g = widen(grads.at[j]) * widen(weights.at[j]);
        sum_g += g;
        sum_gx += g * ((widen(values.at[j]) - mean) * rstd);
      }
    });
    const A mean_g = Shape::sum(sum_g) / count, mean_gx = Shape::sum(sum_gx) / count;
    Shape::for_each_pack(packs, [&](int k, int c) {
      const auto grads = dy.get(k, c), values = x.get(k, c), weights = weight.get(k, c);
      A out[kN];
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        const A g = widen(grads.at[j]) * widen(weights.at[j]);
        out[j] = rstd * (g - mean_g - (widen(values.at[j]) - mean) * rstd * mean_gx);
      }
      store_row_grad<Shape>(out, residual, has_residual, k, c, dx);
    });
  }
};

// dy * (x - mean) * rstd; with kSums = 2 also dy, for the bias.
template <typename T, int N, int kSums>
struct WeightTerms {
  struct Loaded {
    Packed<T, N> dy, x;
    Pack<Acc<T>, 2> stats;
  };
  const T *dy, *x;
  const Acc<T>* stats;
  int64_t width;

  __device__ Loaded load(int64_t row, int64_t column) const {
    const int64_t at = row * width + column;
    return {load_packed<N>(dy + at), load_packed<N>(x + at), {stats[2 * row], stats[2 * row + 1]}};
  }
  __device__ void add(const Loaded& loaded, Acc<T> (&sums)[kSums * N]) const {
    const Pack<T, N> grads = unpack(loaded.dy), values = unpack(loaded.x);
    const Acc<T> mean = loaded.stats.at[0], rstd = loaded.stats.at[1];
#pragma unroll
    for (int j = 0; j < N; ++j) {
      sums[j] += widen(grads.at[j]) * ((widen(values.at[j]) - mean) * rstd);
      if constexpr (kSums == 2) sums[N + j] += widen(grads.at[j]);
    }
  }
};

template <typename T, int N, size_t kSums>
void sum_terms(const char* op, Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& stats,
               const std::array<Tensor, kSums>& outs, bool accumulate) {
  const WeightTerms<T, N, static_cast<int>(kSums)> terms{dy.as<T>(), x.as<T>(), stats.as<Acc<T>>(),
                                                         x.dim(1)};
  column_sums<T, N>(op, ctx, x.dim(0), x.dim(1), terms, outs, accumulate);
}

// outs: dw, or dw and db.
template <size_t kSums>
void sum_weight_terms(const char* op, Context& ctx, const Tensor& dy, const Tensor& x,
                      const Tensor& stats, const std::array<Tensor, kSums>& outs, bool accumulate) {
  dispatch(op, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (packable<T>(x.dim(1), dy.as<T>(), x.as<T>())) {
      sum_terms<T, kPack<T>>(op, ctx, dy, x, stats, outs, accumulate);
    } else {
      sum_terms<T, 1>(op, ctx, dy, x, stats, outs, accumulate);
    }
  });
}

}  // namespace

void layer_norm(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b, Tensor& y,
                Tensor& stats, double eps) {
  dispatch("layer_norm", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    const LayerNorm<T> norm{w.as<T>(), b.as<T>(), stats.as<A>(), static_cast<A>(eps)};
    run_norm<T, LayerNorm<T>>("layer_norm", *ctx.gpu,
                              {x.dim(0), x.dim(1), x.as<T>(), nullptr, nullptr, y.as<T>(), norm});
  });
}

void add_layer_norm(Context& ctx, const Tensor& a1, const Tensor& a2, const Tensor& w,
                    const Tensor& b, Tensor& sum, Tensor& y, Tensor& stats, double eps) {
  dispatch("add_layer_norm", sum.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    const LayerNorm<T> norm{w.as<T>(), b.as<T>(), stats.as<A>(), static_cast<A>(eps)};
    run_norm<T, LayerNorm<T>>(
        "add_layer_norm", *ctx.gpu,
        {sum.dim(0), sum.dim(1), a1.as<T>(), a2.as<T>(), sum.as<T>(), y.as<T>(), norm});
  });
}

void layer_norm_dx(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                   const Tensor& stats, const Tensor& residual, Tensor& dx) {
  dispatch("layer_norm_dx", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const LayerNormGrad<T> norm{w.as<T>(), stats.as<Acc<T>>()};
    run_norm_grad<T, LayerNormGrad<T>>(
        "layer_norm_dx", *ctx.gpu,
        {x.dim(0), x.dim(1), dy.as<T>(), x.as<T>(), residual.as<T>(), dx.as<T>(), norm});
  });
}

void layer_norm_dw(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& stats, Tensor& dw,
                   bool accumulate) {
  sum_weight_terms("layer_norm_dw", ctx, dy, x, stats, std::array{dw}, accumulate);
}

void layer_norm_dw_bias(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& stats,
                        Tensor& dw, Tensor& db, bool accumulate) {
  sum_weight_terms("layer_norm_dw_bias", ctx, dy, x, stats, std::array{dw, db}, accumulate);
}

}  // namespace tessera::kernels::cuda
