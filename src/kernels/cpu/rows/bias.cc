#include "kernels/cpu/bodies.h"
#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/independent.h"

namespace tessera::kernels::cpu {

void add_bias(Context& ctx, const Tensor& x, const Tensor& b, Tensor& y) {
  const int64_t tokens = x.dim(0), width = x.dim(1);
  dispatch("add_bias", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ctx.workers.parallel_for(tokens, 8, [&](int64_t begin, int64_t end) {
      const T* bias = b.as<T>();
      for (int64_t t = begin; t < end; ++t) {
        const T* in = x.as<T>() + t * width;
        T* out = y.as<T>() + t * width;
        // y may be x
        TESSERA_INDEPENDENT
        for (int64_t i = 0; i < width; ++i) {
          out[i] = narrow<T>(widen(in[i]) + widen(bias[i]));
        }
      }
    });
  });
}

void bias_dw(Context& ctx, const Tensor& dy, Tensor& db, bool accumulate) {
  const int64_t tokens = dy.dim(0), width = dy.dim(1);
  dispatch("bias_dw", dy.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* grads = dy.as<T>();
    const auto term = [=](int64_t t, int64_t c) { return widen(grads[t * width + c]); };
    column_sums<T>(ctx, tokens, width, term, db, accumulate);
  });
}

}  // namespace tessera::kernels::cpu
