#include <cmath>

#include "kernels/cpu/bodies.h"
#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/independent.h"
#include "kernels/cpu/rows/norm_rows.h"

namespace tessera::kernels::cpu {
namespace {

// dx = rstd * (g - x * rstd^2 * mean(g * x)) with g = dy * w.
template <typename T>
void grad_row(const T* dy, const T* x, const T* w, Acc<T> rstd, const T* residual, T* dx,
              int64_t width) {
  using A = Acc<T>;
  const A dot =
      lane_sum<A>(width, [&](int64_t i) { return widen(dy[i]) * widen(w[i]) * widen(x[i]); });
  const A factor = rstd * rstd * rstd * dot / static_cast<A>(width);
  if (residual == nullptr) {
    for (int64_t i = 0; i < width; ++i) {
      const A g = widen(dy[i]) * widen(w[i]);
      dx[i] = narrow<T>(rstd * g - factor * widen(x[i]));
    }
  } else {
    // dx may be residual
    TESSERA_INDEPENDENT
    for (int64_t i = 0; i < width; ++i) {
      const A g = widen(dy[i]) * widen(w[i]);
      const A grad = rstd * g - factor * widen(x[i]);
      dx[i] = narrow<T>(grad + widen(residual[i]));
    }
  }
}

}  // namespace

void rms_norm(Context& ctx, const Tensor& x, const Tensor& w, Tensor& y, Tensor& rstd, double eps) {
  const int64_t tokens = x.dim(0), width = x.dim(1);
  dispatch("rms_norm", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_row(ctx, tokens, [&](int64_t t) {
      rstd.as<Acc<T>>()[t] =
          normalise_rms_row(x.as<T>() + t * width, w.as<T>(), y.as<T>() + t * width, width, eps);
    });
  });
}

void add_rms_norm(Context& ctx, const Tensor& a, const Tensor& b, const Tensor& w, Tensor& sum,
                  Tensor& y, Tensor& rstd, double eps) {
  const int64_t tokens = a.dim(0), width = a.dim(1);
  dispatch("add_rms_norm", a.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_row(ctx, tokens, [&](int64_t t) {
      T* row = sum.as<T>() + t * width;
      add_row(a.as<T>() + t * width, b.as<T>() + t * width, row, width);
      rstd.as<Acc<T>>()[t] = normalise_rms_row(row, w.as<T>(), y.as<T>() + t * width, width, eps);
    });
  });
}

void rms_norm_dx(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                 const Tensor& rstd, const Tensor& residual, Tensor& dx) {
  const int64_t tokens = x.dim(0), width = x.dim(1);
  dispatch("rms_norm_dx", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_row(ctx, tokens, [&](int64_t t) {
      const int64_t row = t * width;
      grad_row(dy.as<T>() + row, x.as<T>() + row, w.as<T>(), rstd.as<Acc<T>>()[t],
               row_of<T>(residual, t, width), dx.as<T>() + row, width);
    });
  });
}

void rms_norm_dw(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& rstd, Tensor& dw,
                 bool accumulate) {
  const int64_t tokens = x.dim(0), width = x.dim(1);
  dispatch("rms_norm_dw", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* grads = dy.as<T>();
    const T* inputs = x.as<T>();
    const Acc<T>* scales = rstd.as<Acc<T>>();
    const auto term = [=](int64_t t, int64_t c) {
      const int64_t at = t * width + c;
      return widen(grads[at]) * (widen(inputs[at]) * scales[t]);
    };
    column_sums<T>(ctx, tokens, width, term, dw, accumulate);
  });
}

}  // namespace tessera::kernels::cpu
