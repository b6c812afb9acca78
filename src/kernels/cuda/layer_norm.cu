#include "kernels/cuda/bodies.h"
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/row_groups.cuh"

namespace tessera::kernels::cuda {
namespace {

template <typename T>
struct Forward {
  int64_t tokens, width;
  const T *a1, *a2;  // with a2: the norm of a1 + a2, which is stored as sum
  const T *w, *b;
  T *sum, *y;
  Acc<T>* stats;
  Acc<T> eps;
};

template <typename Shape, bool kAdd>
__global__ void __launch_bounds__(Shape::kBlock, Shape::kBlocks)
    forward_kernel(Forward<typename Shape::T> f) {
  using T = typename Shape::T;
  using A = Acc<T>;
  using Values = Pack<T, Shape::kN>;
  constexpr int kN = Shape::kN;
  const int64_t row = Shape::row();
  if (row >= f.tokens) return;
  const int64_t at = row * f.width;
  const int packs = static_cast<int>(f.width / kN);
  const auto count = static_cast<A>(f.width);
  Row<Shape> x((kAdd ? f.sum : f.a1) + at);
  const WeightRow<Shape> w(f.w), b(f.b);
  if constexpr (kAdd) {
    Row<Shape> left(f.a1 + at), right(f.a2 + at);
    Shape::for_each_pack(packs, [&](int k, int c) {
      left.read(k, c);
      right.read(k, c);
    });
    Shape::for_each_pack(packs, [&](int k, int c) {
      const Values one = left.get(k, c), other = right.get(k, c);
      A sums[kN];
#pragma unroll
      for (int j = 0; j < kN; ++j) sums[j] = widen(one.at[j]) + widen(other.at[j]);
      const Values sum = narrow_pack<T>(sums);
      store_pack(f.sum + at + static_cast<int64_t>(c) * kN, sum);
      x.set(k, sum);
    });
  } else {
    Shape::for_each_pack(packs, [&](int k, int c) { x.read(k, c); });
  }
  A total = 0;
  Shape::for_each_pack(packs, [&](int k, int c) {
    const Values values = x.get(k, c);
#pragma unroll
    for (int j = 0; j < kN; ++j) total += widen(values.at[j]);
  });
  const A mean = Shape::sum(total) / count;
  A squares = 0;
  Shape::for_each_pack(packs, [&](int k, int c) {
    const Values values = x.get(k, c);
#pragma unroll
    for (int j = 0; j < kN; ++j) {
      const A centred = widen(values.at[j]) - mean;
      squares += centred * centred;
    }
  });
  const A rstd = A{1} / sqrt(Shape::sum(squares) / count + f.eps);
  Shape::for_each_pack(packs, [&](int k, int c) {
    const Values values = x.get(k, c), weights = w.get(k, c), biases = b.get(k, c);
    A out[kN];
#pragma unroll
    for (int j = 0; j < kN; ++j) {
      out[j] = (widen(values.at[j]) - mean) * rstd * widen(weights.at[j]) + widen(biases.at[j]);
    }
    store_pack(f.y + at + static_cast<int64_t>(c) * kN, narrow_pack<T>(out));
  });
  if (Shape::lane() == 0) {
    f.stats[2 * row] = mean;
    f.stats[2 * row + 1] = rstd;
  }
}

template <typename T>
void run_forward(const char* op, const Gpu& gpu, const Forward<T>& f) {
  if (f.tokens == 0) return;
  const bool aligned = packable<T>(f.width, f.a1, f.a2, f.w, f.b, f.sum, f.y);
  with_row_shape<T>(f.width, aligned, [&](auto shape) {
    using Shape = decltype(shape);
    const unsigned blocks = blocks_for_rows<Shape>(f.tokens);
    if (f.a2 != nullptr) {
      forward_kernel<Shape, true><<<blocks, Shape::kBlock, 0, gpu.stream()>>>(f);
    } else {
      forward_kernel<Shape, false><<<blocks, Shape::kBlock, 0, gpu.stream()>>>(f);
    }
  });
  check_launch(op);
}

template <typename T>
struct Backward {
  int64_t tokens, width;
  const T *dy, *x, *w;
  const Acc<T>* stats;
  const T* residual;  // null: none
  T* dx;
};

// dx = rstd * (g - mean(g) - xhat * mean(g * xhat)) with g = dy * w, xhat = (x - mean) * rstd.
template <typename Shape>
__global__ void __launch_bounds__(Shape::kBlock, Shape::kBlocks)
    backward_kernel(Backward<typename Shape::T> b) {
  using T = typename Shape::T;
  using A = Acc<T>;
  using Values = Pack<T, Shape::kN>;
  constexpr int kN = Shape::kN;
  const int64_t row = Shape::row();
  if (row >= b.tokens) return;
  const int64_t at = row * b.width;
  const int packs = static_cast<int>(b.width / kN);
  const auto count = static_cast<A>(b.width);
  const A mean = b.stats[2 * row], rstd = b.stats[2 * row + 1];
  Row<Shape> dy(b.dy + at), x(b.x + at), residual(b.residual + at);
  const WeightRow<Shape> w(b.w);
  Shape::for_each_pack(packs, [&](int k, int c) {
    dy.read(k, c);
    x.read(k, c);
    if (b.residual != nullptr) residual.read(k, c);
  });
  A sum_g = 0, sum_gx = 0;
  Shape::for_each_pack(packs, [&](int k, int c) {
    const Values grads = dy.get(k, c), values = x.get(k, c), weights = w.get(k, c);
#pragma unroll
    for (int j = 0; j < kN; ++j) {
      const A g = widen(grads.at[j]) * widen(weights.at[j]);
      sum_g += g;
      sum_gx += g * ((widen(values.at[j]) - mean) * rstd);
    }
  });
  const A mean_g = Shape::sum(sum_g) / count, mean_gx = Shape::sum(sum_gx) / count;
  Shape::for_each_pack(packs, [&](int k, int c) {
    const Values grads = dy.get(k, c), values = x.get(k, c), weights = w.get(k, c);
    A out[kN];
#pragma unroll
    for (int j = 0; j < kN; ++j) {
      const A g = widen(grads.at[j]) * widen(weights.at[j]);
      out[j] = rstd * (g - mean_g - (widen(values.at[j]) - mean) * rstd * mean_gx);
    }
    if (b.residual != nullptr) {
      const Values kept = residual.get(k, c);
#pragma unroll
      for (int j = 0; j < kN; ++j) out[j] += widen(kept.at[j]);
    }
    store_pack(b.dx + at + static_cast<int64_t>(c) * kN, narrow_pack<T>(out));
  });
}

template <typename T>
void run_backward(const Gpu& gpu, const Backward<T>& b) {
  if (b.tokens == 0) return;
  const bool aligned = packable<T>(b.width, b.dy, b.x, b.w, b.residual, b.dx);
  with_row_shape<T>(b.width, aligned, [&](auto shape) {
    using Shape = decltype(shape);
    backward_kernel<Shape><<<blocks_for_rows<Shape>(b.tokens), Shape::kBlock, 0, gpu.stream()>>>(b);
  });
  check_launch("layer_norm_dx");
}

// dy * (x - mean) * rstd.
template <typename T, int N>
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
  __device__ void add(const Loaded& loaded, Acc<T> (&sums)[N]) const {
    const Pack<T, N> grads = unpack(loaded.dy), values = unpack(loaded.x);
    const Acc<T> mean = loaded.stats.at[0], rstd = loaded.stats.at[1];
#pragma unroll
    for (int j = 0; j < N; ++j) {
      sums[j] += widen(grads.at[j]) * ((widen(values.at[j]) - mean) * rstd);
    }
  }
};

template <typename T, int N>
void sum_weight_terms(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& stats,
                      Tensor& dw, bool accumulate) {
  using A = Acc<T>;
  const WeightTerms<T, N> terms{dy.as<T>(), x.as<T>(), stats.as<A>(), x.dim(1)};
  column_sums<T, N>("layer_norm_dw", ctx, x.dim(0), x.dim(1), terms, dw, accumulate);
}

}  // namespace

void layer_norm(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b, Tensor& y,
                Tensor& stats, double eps) {
  dispatch("layer_norm", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    run_forward<T>("layer_norm", *ctx.gpu,
                   {x.dim(0), x.dim(1), x.as<T>(), nullptr, w.as<T>(), b.as<T>(), nullptr,
                    y.as<T>(), stats.as<A>(), static_cast<A>(eps)});
  });
}

void add_layer_norm(Context& ctx, const Tensor& a1, const Tensor& a2, const Tensor& w,
                    const Tensor& b, Tensor& sum, Tensor& y, Tensor& stats, double eps) {
  dispatch("add_layer_norm", sum.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    run_forward<T>("add_layer_norm", *ctx.gpu,
                   {sum.dim(0), sum.dim(1), a1.as<T>(), a2.as<T>(), w.as<T>(), b.as<T>(),
                    sum.as<T>(), y.as<T>(), stats.as<A>(), static_cast<A>(eps)});
  });
}

void layer_norm_dx(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                   const Tensor& stats, const Tensor& residual, Tensor& dx) {
  dispatch("layer_norm_dx", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    run_backward<T>(*ctx.gpu, {x.dim(0), x.dim(1), dy.as<T>(), x.as<T>(), w.as<T>(),
                               stats.as<Acc<T>>(), residual.as<T>(), dx.as<T>()});
  });
}

void layer_norm_dw(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& stats, Tensor& dw,
                   bool accumulate) {
  dispatch("layer_norm_dw", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (packable<T>(x.dim(1), dy.as<T>(), x.as<T>())) {
      sum_weight_terms<T, kPack<T>>(ctx, dy, x, stats, dw, accumulate);
    } else {
      sum_weight_terms<T, 1>(ctx, dy, x, stats, dw, accumulate);
    }
  });
}

}  // namespace tessera::kernels::cuda
