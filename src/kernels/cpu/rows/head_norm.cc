#include <algorithm>

#include "kernels/cpu/bodies.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/independent.h"
#include "kernels/cpu/rows/norm_rows.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t kRowGrain = 8;

// dx = rstd * (g - x * rstd^2 * mean(g * x)) with g = dy * w.
template <typename T>
void head_grad(const T* dy, const T* x, const T* w, Acc<T> rstd, T* dx, int64_t dim) {
  using A = Acc<T>;
  const A dot =
      lane_sum<A>(dim, [&](int64_t i) { return widen(dy[i]) * widen(w[i]) * widen(x[i]); });
  const A factor = rstd * rstd * rstd * dot / static_cast<A>(dim);
  // dx may be dy
  TESSERA_INDEPENDENT
  for (int64_t i = 0; i < dim; ++i) {
    const A g = widen(dy[i]) * widen(w[i]);
    dx[i] = narrow<T>(rstd * g - factor * widen(x[i]));
  }
}

}  // namespace

void head_norm(Context& ctx, const Tensor& x, const Tensor& w, Tensor& y, Tensor& rstd,
               double eps) {
  const int64_t tokens = x.dim(0), width = x.dim(1), heads = rstd.dim(1), dim = w.numel();
  dispatch("head_norm", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ctx.workers.parallel_for(tokens, kRowGrain, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const T* in = x.as<T>() + t * width;
        T* out = y.as<T>() + t * width;
        for (int64_t h = 0; h < heads; ++h) {
          rstd.as<Acc<T>>()[t * heads + h] =
              normalise_rms_row(in + h * dim, w.as<T>(), out + h * dim, dim, eps);
        }
        std::copy(in + heads * dim, in + width, out + heads * dim);
      }
    });
  });
}

void head_norm_dx(Context& ctx, const Tensor& dy, const Tensor& x, const Tensor& w,
                  const Tensor& rstd, Tensor& dx) {
  const int64_t tokens = x.dim(0), width = x.dim(1), heads = rstd.dim(1), dim = w.numel();
  dispatch("head_norm_dx", x.dtype, [&](auto tag) {
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
  constexpr int64_t kTokens = 64;
  const int64_t tokens = x.dim(0), width = x.dim(1), heads = rstd.dim(1), dim = dw.numel();
  dispatch("head_norm_dw", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    const auto column_sum = [&](int64_t c) {
      A total = 0;
      for (int64_t t0 = 0; t0 < tokens; t0 += kTokens) {
        A part = 0;
        for (int64_t t = t0; t < std::min(tokens, t0 + kTokens); ++t) {
          for (int64_t h = 0; h < heads; ++h) {
            const int64_t at = t * width + h * dim + c;
            part += widen(dy.as<T>()[at]) * (widen(x.as<T>()[at]) * rstd.as<A>()[t * heads + h]);
          }
        }
        total += part;
      }
      return total;
    };
    with_gradient<T>(dw, [&](auto gradient) {
      using G = typename decltype(gradient)::type;
      ctx.workers.parallel_for(dim, 16, [&](int64_t begin, int64_t end) {
        for (int64_t c = begin; c < end; ++c) {
          G& out = dw.as<G>()[c];
          const A total = column_sum(c);
          out = narrow<G>(accumulate ? widen(out) + total : total);
        }
      });
    });
  });
}

}  // namespace tessera::kernels::cpu
