#include "kernels/cuda/bodies.h"
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/rms_rows.cuh"

namespace tessera::kernels::cuda {
namespace {

template <typename T>
struct Forward {
  int64_t tokens, width;
  const T *a, *b, *w;  // with b: the norm of a + b, which is stored as sum
  T *sum, *y;
  Acc<T>* rstd;
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
  Row<Shape> x((kAdd ? f.sum : f.a) + at);
  const WeightRow<Shape> w(f.w);
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
  const A rstd = normalise_rms_row(packs, x, w, f.eps, f.y + at);
  if (Shape::lane() == 0) f.rstd[row] = rstd;
}

template <typename T>
void run_forward(const char* op, const Gpu& gpu, const Forward<T>& f) {
  if (f.tokens == 0) return;
  const bool aligned = packable<T>(f.width, f.a, f.b, f.w, f.sum, f.y);
  with_row_shape<T>(f.width, aligned, [&](auto shape) {
    using Shape = decltype(shape);
    const unsigned blocks = blocks_for_rows<Shape>(f.tokens);
    if (f.b != nullptr) {
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
  const Acc<T>* rstd;
  const T* residual;  // null: none
  T* dx;
};

template <typename Shape>
__global__ void __launch_bounds__(Shape::kBlock, Shape::kBlocks)
    backward_kernel(Backward<typename Shape::T> b) {
  const int64_t row = Shape::row();
  if (row >= b.tokens) return;
  const int64_t at = row * b.width;
  const int packs = static_cast<int>(b.width / Shape::kN);
  Row<Shape> dy(b.dy + at), x(b.x + at), residual(b.residual + at);
  const WeightRow<Shape> w(b.w);
  Shape::for_each_pack(packs, [&](int k, int c) {
    dy.read(k, c);
    x.read(k, c);
    if (b.residual != nullptr) residual.read(k, c);
  });
  rms_row_grad(packs, dy, x, w, b.rstd[row], residual, b.residual != nullptr, b.dx + at);
}

template <typename T>
void run_backward(const Gpu& gpu, const Backward<T>& b) {
  if (b.tokens == 0) return;
  const bool aligned = packable<T>(b.width, b.dy, b.x, b.w, b.residual, b.dx);
  with_row_shape<T>(b.width, aligned, [&](auto shape) {
    using Shape = decltype(shape);
    backward_kernel<Shape><<<blocks_for_rows<Shape>(b.tokens), Shape::kBlock, 0, gpu.stream()>>>(b);
  });
  check_launch("rms_norm_dx");
}

// dy * x * rstd.
template <typename T, int N>
struct WeightTerms {
  struct Loaded {
    Packed<T, N> dy, x;
    Acc<T> rstd;
  };
  const T *dy, *x;
  const Acc<T>* rstd;
  int64_t width;

  __device__ Loaded load(int64_t row, int64_t column) const {
    const int64_t at = row * width + column;
    return {load_packed<N>(dy + at), load_packed<N>(x + at), rstd[row]};
  }
  __device__ void add(const Loaded& loaded, Acc<T> (&sums)[N]) const {
    const Pack<T, N> grads = unpack(loaded.dy), values = unpack(loaded.x);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      sums[j] += widen(grads.at[j]) * (widen(values.at[j]) * loaded.rstd);
    }
  }
};

template <typename T, int N>
void sum_weight_terms(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& rstd,
                      Tensor& dw, bool accumulate) {
  using A = Acc<T>;
  const WeightTerms<T, N> terms{dy.as<T>(), x.as<T>(), rstd.as<A>(), x.dim(1)};
  column_sums<T, N>("rms_norm_dw", ctx, x.dim(0), x.dim(1), terms, dw, accumulate);
}

}  // namespace

void rms_norm(Context& ctx, const Tensor& x, const Tensor& w, Tensor& y, Tensor& rstd, double eps) {
  dispatch("rms_norm", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    run_forward<T>("rms_norm", *ctx.gpu,
                   {x.dim(0), x.dim(1), x.as<T>(), nullptr, w.as<T>(), nullptr, y.as<T>(),
                    rstd.as<A>(), static_cast<A>(eps)});
  });
}

void add_rms_norm(Context& ctx, const Tensor& a, const Tensor& b, const Tensor& w, Tensor& sum,
                  Tensor& y, Tensor& rstd, double eps) {
  dispatch("add_rms_norm", a.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    run_forward<T>("add_rms_norm", *ctx.gpu,
                   {a.dim(0), a.dim(1), a.as<T>(), b.as<T>(), w.as<T>(), sum.as<T>(), y.as<T>(),
                    rstd.as<A>(), static_cast<A>(eps)});
  });
}

void rms_norm_dx(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                 const Tensor& rstd, const Tensor& residual, Tensor& dx) {
  dispatch("rms_norm_dx", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    run_backward<T>(*ctx.gpu, {x.dim(0), x.dim(1), dy.as<T>(), x.as<T>(), w.as<T>(),
                               rstd.as<Acc<T>>(), residual.as<T>(), dx.as<T>()});
  });
}

void rms_norm_dw(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& rstd, Tensor& dw,
                 bool accumulate) {
  dispatch("rms_norm_dw", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (packable<T>(x.dim(1), dy.as<T>(), x.as<T>())) {
      sum_weight_terms<T, kPack<T>>(ctx, dy, x, rstd, dw, accumulate);
    } else {
      sum_weight_terms<T, 1>(ctx, dy, x, rstd, dw, accumulate);
    }
  });
}

}  // namespace tessera::kernels::cuda
