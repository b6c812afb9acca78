#include <algorithm>
#include <cmath>

#include "kernels/cpu/check.h"
#include "kernels/cpu/independent.h"
#include "kernels/kernels.h"
#include "kernels/on_cuda.h"

namespace tessera::kernels {
namespace {

using cpu::Acc;

constexpr int64_t kRowGrain = 8;

// Throws InternalError unless x[T, W] begins with rstd[T, heads]'s heads of w[D]'s width.
void check_heads(const char* op, const Tensor& x, const Tensor& w, DType weight_type,
                 const Tensor& rstd) {
  cpu::check_dims(op, "x", x, 2);
  cpu::check_dims(op, "rstd", rstd, 2);
  const int64_t tokens = x.dim(0), width = x.dim(1), heads = rstd.dim(1);
  cpu::check_tensor(op, "x", x, x.dtype, {tokens, width});
  cpu::check_flat(op, "w", w, weight_type, w.numel());
  cpu::check_tensor(op, "rstd", rstd, accumulate_type(x.dtype), {tokens, heads});
  TESSERA_CHECK(heads * w.numel() <= width, "{}: {} heads of {} columns in a row of {}", op, heads,
                w.numel(), width);
}

template <typename T>
Acc<T> normalise_head(const T* x, const T* w, T* y, int64_t dim, double eps) {
  using A = Acc<T>;
  const A squares = cpu::lane_sum<A>(dim, [&](int64_t i) {
    const A value = cpu::widen(x[i]);
    return value * value;
  });
  const A rstd = A{1} / std::sqrt(squares / static_cast<A>(dim) + static_cast<A>(eps));
  for (int64_t i = 0; i < dim; ++i) {
    y[i] = cpu::narrow<T>(cpu::widen(x[i]) * rstd * cpu::widen(w[i]));
  }
  return rstd;
}

// dx = rstd * (g - x * rstd^2 * mean(g * x)) with g = dy * w.
template <typename T>
void head_grad(const T* dy, const T* x, const T* w, Acc<T> rstd, T* dx, int64_t dim) {
  using A = Acc<T>;
  const A dot = cpu::lane_sum<A>(
      dim, [&](int64_t i) { return cpu::widen(dy[i]) * cpu::widen(w[i]) * cpu::widen(x[i]); });
  const A factor = rstd * rstd * rstd * dot / static_cast<A>(dim);
  // dx may be dy
  TESSERA_INDEPENDENT
  for (int64_t i = 0; i < dim; ++i) {
    const A g = cpu::widen(dy[i]) * cpu::widen(w[i]);
    dx[i] = cpu::narrow<T>(rstd * g - factor * cpu::widen(x[i]));
  }
}

}  // namespace

void head_norm(Context& ctx, const Tensor& x, const Tensor& w, Tensor& y, Tensor& rstd,
               double eps) {
  constexpr const char* kOp = "head_norm";
  check_heads(kOp, x, w, x.dtype, rstd);
  const int64_t tokens = x.dim(0), width = x.dim(1), heads = rstd.dim(1), dim = w.numel();
  cpu::check_tensor(kOp, "y", y, x.dtype, {tokens, width});
  TESSERA_ON_CUDA(head_norm(ctx, x, w, y, rstd, eps));
  cpu::dispatch(kOp, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ctx.workers.parallel_for(tokens, kRowGrain, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const T* in = x.as<T>() + t * width;
        T* out = y.as<T>() + t * width;
        for (int64_t h = 0; h < heads; ++h) {
          rstd.as<Acc<T>>()[t * heads + h] =
              normalise_head(in + h * dim, w.as<T>(), out + h * dim, dim, eps);
        }
        std::copy(in + heads * dim, in + width, out + heads * dim);
      }
    });
  });
}

void head_norm_dx(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                  const Tensor& rstd, Tensor& dx) {
  constexpr const char* kOp = "head_norm_dx";
  check_heads(kOp, x, w, x.dtype, rstd);
  const int64_t tokens = x.dim(0), width = x.dim(1), heads = rstd.dim(1), dim = w.numel();
  cpu::check_tensor(kOp, "dy", dy, x.dtype, {tokens, width});
  cpu::check_tensor(kOp, "dx", dx, x.dtype, {tokens, width});
  TESSERA_ON_CUDA(head_norm_dx(ctx, dy, x, w, rstd, dx));
  cpu::dispatch(kOp, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ctx.workers.parallel_for(tokens, kRowGrain, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const T* grads = dy.as<T>() + t * width;
        const T* in = x.as<T>() + t * width;
        T* out = dx.as<T>() + t * width;
        for (int64_t h = 0; h < heads; ++h) {
          head_grad(grads + h * dim, in + h * dim, w.as<T>(), rstd.as<Acc<T>>()[t * heads + h],
                    out + h * dim, dim);
        }
        if (grads != out) std::copy(grads + heads * dim, grads + width, out + heads * dim);
      }
    });
  });
}

// Every member owns some columns and walks all tokens and heads in order. Sums of kTokens tokens
// first: shorter sums round less.
void head_norm_dw(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& rstd, Tensor& dw,
                  bool accumulate) {
  constexpr const char* kOp = "head_norm_dw";
  constexpr int64_t kTokens = 64;
  check_heads(kOp, x, dw, cpu::gradient_type(x.dtype, dw), rstd);
  const int64_t tokens = x.dim(0), width = x.dim(1), heads = rstd.dim(1), dim = dw.numel();
  cpu::check_tensor(kOp, "dy", dy, x.dtype, {tokens, width});
  TESSERA_ON_CUDA(head_norm_dw(ctx, dy, x, rstd, dw, accumulate));
  cpu::dispatch(kOp, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    const auto column_sum = [&](int64_t c) {
      A total = 0;
      for (int64_t t0 = 0; t0 < tokens; t0 += kTokens) {
        A part = 0;
        for (int64_t t = t0; t < std::min(tokens, t0 + kTokens); ++t) {
          for (int64_t h = 0; h < heads; ++h) {
            const int64_t at = t * width + h * dim + c;
            part += cpu::widen(dy.as<T>()[at]) *
                    (cpu::widen(x.as<T>()[at]) * rstd.as<A>()[t * heads + h]);
          }
        }
        total += part;
      }
      return total;
    };
    cpu::with_gradient<T>(dw, [&](auto gradient) {
      using G = typename decltype(gradient)::type;
      ctx.workers.parallel_for(dim, 16, [&](int64_t begin, int64_t end) {
        for (int64_t c = begin; c < end; ++c) {
          G& out = dw.as<G>()[c];
          const A total = column_sum(c);
          out = cpu::narrow<G>(accumulate ? cpu::widen(out) + total : total);
        }
      });
    });
  });
}

}  // namespace tessera::kernels
