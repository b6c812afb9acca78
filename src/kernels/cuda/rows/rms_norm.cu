#include "kernels/cuda/bodies.h"
#include "kernels/cuda/rows/rms_rows.cuh"

namespace tessera::kernels::cuda {
namespace {

template <typename T>
struct RmsNorm {
  const T* w;
  Acc<T>* rstd;
  Acc<T> eps;

  [[nodiscard]] bool aligned(int64_t width) const { return packable<T>(width, w); }
  template <typename Shape>
  __device__ void normalise(int64_t row, int packs, const Row<Shape>& x, T* y) const {
    const Acc<T> scale = normalise_rms_row(packs, x, WeightRow<Shape>(w), eps, y);
    if (Shape::lane() == 0) rstd[row] = scale;
  }
};

template <typename T>
struct RmsNormGrad {
  const T* w;
  const Acc<T>* rstd;

  [[nodiscard]] bool aligned(int64_t width) const { return packable<T>(width, w); }
  template <typename Shape>
  __device__ void gradient(int64_t row, int packs, const Row<Shape>& dy, const Row<Shape>& x,
                           const Row<Shape>& residual, bool has_residual, T* dx) const {
    rms_row_grad(packs, dy, x, WeightRow<Shape>(w), rstd[row], residual, has_residual, dx);
  }
};

template <typename T, int N>
struct WeightTerms : RmsWeightTerms<T, N> {
  using Loaded = typename RmsWeightTerms<T, N>::Loaded;
  const T *dy, *x;
  const Acc<T>* rstd;
  int64_t width;

  __device__ Loaded load(int64_t row, int64_t column) const {
    const int64_t at = row * width + column;
    return {load_packed<N>(dy + at), load_packed<N>(x + at), rstd[row]};
  }
};

template <typename T, int N>
void sum_weight_terms(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& rstd,
                      Tensor& dw, bool accumulate) {
  using A = Acc<T>;
  const WeightTerms<T, N> terms{{}, dy.as<T>(), x.as<T>(), rstd.as<A>(), x.dim(1)};
  column_sums<T, N>("rms_norm_dw", ctx, x.dim(0), x.dim(1), terms, std::array{dw}, accumulate);
}

}  // namespace

void rms_norm(Context& ctx, const Tensor& x, const Tensor& w, Tensor& y, Tensor& rstd, double eps) {
  dispatch("rms_norm", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    const RmsNorm<T> norm{w.as<T>(), rstd.as<A>(), static_cast<A>(eps)};
    run_norm<T, RmsNorm<T>>("rms_norm", *ctx.gpu,
                            {x.dim(0), x.dim(1), x.as<T>(), nullptr, nullptr, y.as<T>(), norm});
  });
}

void add_rms_norm(Context& ctx, const Tensor& a, const Tensor& b, const Tensor& w, Tensor& sum,
                  Tensor& y, Tensor& rstd, double eps) {
  dispatch("add_rms_norm", a.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    const RmsNorm<T> norm{w.as<T>(), rstd.as<A>(), static_cast<A>(eps)};
    run_norm<T, RmsNorm<T>>(
        "add_rms_norm", *ctx.gpu,
        {a.dim(0), a.dim(1), a.as<T>(), b.as<T>(), sum.as<T>(), y.as<T>(), norm});
  });
}

void rms_norm_dx(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                 const Tensor& rstd, const Tensor& residual, Tensor& dx) {
  dispatch("rms_norm_dx", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const RmsNormGrad<T> norm{w.as<T>(), rstd.as<Acc<T>>()};
    run_norm_grad<T, RmsNormGrad<T>>(
        "rms_norm_dx", *ctx.gpu,
        {x.dim(0), x.dim(1), dy.as<T>(), x.as<T>(), residual.as<T>(), dx.as<T>(), norm});
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
