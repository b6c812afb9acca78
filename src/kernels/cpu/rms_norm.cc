#include <cmath>

#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/independent.h"
#include "kernels/cpu/norm_rows.h"
#include "kernels/on_cuda.h"

namespace tessera::kernels {
namespace {

using cpu::Acc;

template <typename T>
Acc<T> normalise_row(const T* x, const T* w, T* y, int64_t width, double eps) {
  using A = Acc<T>;
  const A squares = cpu::lane_sum<A>(width, [&](int64_t i) {
    const A value = cpu::widen(x[i]);
    return value * value;
  });
  const A rstd = A{1} / std::sqrt(squares / static_cast<A>(width) + static_cast<A>(eps));
  for (int64_t i = 0; i < width; ++i) {
    y[i] = cpu::narrow<T>(cpu::widen(x[i]) * rstd * cpu::widen(w[i]));
  }
  return rstd;
}

// dx = rstd * (g - x * rstd^2 * mean(g * x)) with g = dy * w.
template <typename T>
void grad_row(const T* dy, const T* x, const T* w, Acc<T> rstd, const T* residual, T* dx,
              int64_t width) {
  using A = Acc<T>;
  const A dot = cpu::lane_sum<A>(
      width, [&](int64_t i) { return cpu::widen(dy[i]) * cpu::widen(w[i]) * cpu::widen(x[i]); });
  const A factor = rstd * rstd * rstd * dot / static_cast<A>(width);
  if (residual == nullptr) {
    for (int64_t i = 0; i < width; ++i) {
      const A g = cpu::widen(dy[i]) * cpu::widen(w[i]);
      dx[i] = cpu::narrow<T>(rstd * g - factor * cpu::widen(x[i]));
    }
  } else {
    // dx may be residual
    TESSERA_INDEPENDENT
    for (int64_t i = 0; i < width; ++i) {
      const A g = cpu::widen(dy[i]) * cpu::widen(w[i]);
      const A grad = rstd * g - factor * cpu::widen(x[i]);
      dx[i] = cpu::narrow<T>(grad + cpu::widen(residual[i]));
    }
  }
}

}  // namespace

void rms_norm(Context& ctx, const Tensor& x, const Tensor& w, Tensor& y, Tensor& rstd, double eps) {
  constexpr const char* kOp = "rms_norm";
  cpu::check_dims(kOp, "x", x, 2);
  const int64_t tokens = x.dim(0), width = x.dim(1);
  cpu::check_tensor(kOp, "x", x, x.dtype, {tokens, width});
  cpu::check_flat(kOp, "w", w, x.dtype, width);
  cpu::check_tensor(kOp, "y", y, x.dtype, {tokens, width});
  cpu::check_flat(kOp, "rstd", rstd, accumulate_type(x.dtype), tokens);
  TESSERA_ON_CUDA(rms_norm(ctx, x, w, y, rstd, eps));
  cpu::dispatch(kOp, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    cpu::for_each_row(ctx, tokens, [&](int64_t t) {
      rstd.as<Acc<T>>()[t] =
          normalise_row(x.as<T>() + t * width, w.as<T>(), y.as<T>() + t * width, width, eps);
    });
  });
}

void add_rms_norm(Context& ctx, const Tensor& a, const Tensor& b, const Tensor& w, Tensor& sum,
                  Tensor& y, Tensor& rstd, double eps) {
  constexpr const char* kOp = "add_rms_norm";
  cpu::check_dims(kOp, "a", a, 2);
  const int64_t tokens = a.dim(0), width = a.dim(1);
  cpu::check_tensor(kOp, "a", a, a.dtype, {tokens, width});
  cpu::check_tensor(kOp, "b", b, a.dtype, {tokens, width});
  cpu::check_flat(kOp, "w", w, a.dtype, width);
  cpu::check_tensor(kOp, "sum", sum, a.dtype, {tokens, width});
  cpu::check_tensor(kOp, "y", y, a.dtype, {tokens, width});
  cpu::check_flat(kOp, "rstd", rstd, accumulate_type(a.dtype), tokens);
  TESSERA_ON_CUDA(add_rms_norm(ctx, a, b, w, sum, y, rstd, eps));
  cpu::dispatch(kOp, a.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    cpu::for_each_row(ctx, tokens, [&](int64_t t) {
      T* row = sum.as<T>() + t * width;
      cpu::add_row(a.as<T>() + t * width, b.as<T>() + t * width, row, width);
      rstd.as<Acc<T>>()[t] = normalise_row(row, w.as<T>(), y.as<T>() + t * width, width, eps);
    });
  });
}

void rms_norm_dx(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                 const Tensor& rstd, const Tensor& residual, Tensor& dx) {
  constexpr const char* kOp = "rms_norm_dx";
  cpu::check_dims(kOp, "x", x, 2);
  const int64_t tokens = x.dim(0), width = x.dim(1);
  cpu::check_tensor(kOp, "dy", dy, x.dtype, {tokens, width});
  cpu::check_tensor(kOp, "x", x, x.dtype, {tokens, width});
  cpu::check_flat(kOp, "w", w, x.dtype, width);
  cpu::check_flat(kOp, "rstd", rstd, accumulate_type(x.dtype), tokens);
  if (residual.data != nullptr) {
    cpu::check_tensor(kOp, "residual", residual, x.dtype, {tokens, width});
  }
  cpu::check_tensor(kOp, "dx", dx, x.dtype, {tokens, width});
  TESSERA_ON_CUDA(rms_norm_dx(ctx, dy, x, w, rstd, residual, dx));
  cpu::dispatch(kOp, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    cpu::for_each_row(ctx, tokens, [&](int64_t t) {
      const int64_t row = t * width;
      grad_row(dy.as<T>() + row, x.as<T>() + row, w.as<T>(), rstd.as<Acc<T>>()[t],
               cpu::row_of<T>(residual, t, width), dx.as<T>() + row, width);
    });
  });
}

void rms_norm_dw(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& rstd, Tensor& dw,
                 bool accumulate) {
  constexpr const char* kOp = "rms_norm_dw";
  cpu::check_dims(kOp, "x", x, 2);
  const int64_t tokens = x.dim(0), width = x.dim(1);
  cpu::check_tensor(kOp, "dy", dy, x.dtype, {tokens, width});
  cpu::check_tensor(kOp, "x", x, x.dtype, {tokens, width});
  cpu::check_flat(kOp, "rstd", rstd, accumulate_type(x.dtype), tokens);
  cpu::check_flat(kOp, "dw", dw, cpu::gradient_type(x.dtype, dw), width);
  TESSERA_ON_CUDA(rms_norm_dw(ctx, dy, x, rstd, dw, accumulate));
  cpu::dispatch(kOp, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* grads = dy.as<T>();
    const T* inputs = x.as<T>();
    const Acc<T>* scales = rstd.as<Acc<T>>();
    const auto term = [=](int64_t t, int64_t c) {
      const int64_t at = t * width + c;
      return cpu::widen(grads[at]) * (cpu::widen(inputs[at]) * scales[t]);
    };
    cpu::column_sums<T>(ctx, tokens, width, term, dw, accumulate);
  });
}

}  // namespace tessera::kernels
