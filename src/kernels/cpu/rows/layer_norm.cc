#include <cmath>

#include "kernels/cpu/bodies.h"
#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/independent.h"
#include "kernels/cpu/rows/norm_rows.h"

namespace tessera::kernels::cpu {
namespace {

// Writes mean and 1/sqrt(variance + eps) to stats[2].
template <typename T>
void normalise_row(const T* x, const T* w, const T* b, T* y, Acc<T>* stats, int64_t width,
                   double eps) {
  using A = Acc<T>;
  const auto count = static_cast<A>(width);
  const A mean = lane_sum<A>(width, [&](int64_t i) { return widen(x[i]); }) / count;
  const A squares = lane_sum<A>(width, [&](int64_t i) {
    const A centred = widen(x[i]) - mean;
    return centred * centred;
  });
  const A rstd = A{1} / std::sqrt(squares / count + static_cast<A>(eps));
  for (int64_t i = 0; i < width; ++i) {
    y[i] = narrow<T>((widen(x[i]) - mean) * rstd * widen(w[i]) + widen(b[i]));
  }
  stats[0] = mean;
  stats[1] = rstd;
}

// dx = rstd * (g - mean(g) - xhat * mean(g * xhat)) with g = dy * w, xhat = (x - mean) * rstd.
template <typename T>
void grad_row(const T* dy, const T* x, const T* w, const Acc<T>* stats, const T* residual, T* dx,
              int64_t width) {
  using A = Acc<T>;
  const A mean = stats[0], rstd = stats[1];
  const auto count = static_cast<A>(width);
  const auto g = [&](int64_t i) { return widen(dy[i]) * widen(w[i]); };
  const auto xhat = [&](int64_t i) { return (widen(x[i]) - mean) * rstd; };
  const A mean_g = lane_sum<A>(width, g) / count;
  const A mean_gx = lane_sum<A>(width, [&](int64_t i) { return g(i) * xhat(i); }) / count;
  // dx may be residual
  TESSERA_INDEPENDENT
  for (int64_t i = 0; i < width; ++i) {
    const A kept = residual == nullptr ? A{0} : widen(residual[i]);
    dx[i] = narrow<T>(rstd * (g(i) - mean_g - xhat(i) * mean_gx) + kept);
  }
}

}  // namespace

void layer_norm(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b, Tensor& y,
                Tensor& stats, double eps) {
  const int64_t tokens = x.dim(0), width = x.dim(1);
  dispatch("layer_norm", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_row(ctx, tokens, [&](int64_t t) {
      normalise_row(x.as<T>() + t * width, w.as<T>(), b.as<T>(), y.as<T>() + t * width,
                    stats.as<Acc<T>>() + t * 2, width, eps);
    });
  });
}

void add_layer_norm(Context& ctx, const Tensor& a1, const Tensor& a2, const Tensor& w,
                    const Tensor& b, Tensor& sum, Tensor& y, Tensor& stats, double eps) {
  const int64_t tokens = sum.dim(0), width = sum.dim(1);
  dispatch("add_layer_norm", sum.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_row(ctx, tokens, [&](int64_t t) {
      T* row = sum.as<T>() + t * width;
      add_row(a1.as<T>() + t * width, a2.as<T>() + t * width, row, width);
      normalise_row(row, w.as<T>(), b.as<T>(), y.as<T>() + t * width, stats.as<Acc<T>>() + t * 2,
                    width, eps);
    });
  });
}

void layer_norm_dx(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                   const Tensor& stats, const Tensor& residual, Tensor& dx) {
  const int64_t tokens = x.dim(0), width = x.dim(1);
  dispatch("layer_norm_dx", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_row(ctx, tokens, [&](int64_t t) {
      const int64_t row = t * width;
      grad_row(dy.as<T>() + row, x.as<T>() + row, w.as<T>(), stats.as<Acc<T>>() + t * 2,
               row_of<T>(residual, t, width), dx.as<T>() + row, width);
    });
  });
}

void layer_norm_dw(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& stats, Tensor& dw,
                   bool accumulate) {
  const int64_t tokens = x.dim(0), width = x.dim(1);
  dispatch("layer_norm_dw", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    const T* grads = dy.as<T>();
    const T* inputs = x.as<T>();
    const A* row_stats = stats.as<A>();
    const auto term = [=](int64_t t, int64_t c) {
      const int64_t at = t * width + c;
      const A xhat = (widen(inputs[at]) - row_stats[t * 2]) * row_stats[t * 2 + 1];
      return widen(grads[at]) * xhat;
    };
    column_sums<T>(ctx, tokens, width, term, dw, accumulate);
  });
}

}  // namespace tessera::kernels::cpu
