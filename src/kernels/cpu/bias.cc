#include "kernels/cpu/check.h"
#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/independent.h"
#include "kernels/kernels.h"
#include "kernels/on_cuda.h"

namespace tessera::kernels {

void add_bias(Context& ctx, const Tensor& x, const Tensor& b, Tensor& y) {
  constexpr const char* kOp = "add_bias";
  cpu::check_dims(kOp, "x", x, 2);
  const int64_t tokens = x.dim(0), width = x.dim(1);
  cpu::check_tensor(kOp, "x", x, x.dtype, {tokens, width});
  cpu::check_flat(kOp, "b", b, x.dtype, width);
  cpu::check_tensor(kOp, "y", y, x.dtype, {tokens, width});
  TESSERA_ON_CUDA(add_bias(ctx, x, b, y));
  cpu::dispatch(kOp, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ctx.workers.parallel_for(tokens, 8, [&](int64_t begin, int64_t end) {
      const T* bias = b.as<T>();
      for (int64_t t = begin; t < end; ++t) {
        const T* in = x.as<T>() + t * width;
        T* out = y.as<T>() + t * width;
        // y may be x
        TESSERA_INDEPENDENT
        for (int64_t i = 0; i < width; ++i) {
          out[i] = cpu::narrow<T>(cpu::widen(in[i]) + cpu::widen(bias[i]));
        }
      }
    });
  });
}

void bias_dw(Context& ctx, const Tensor& dy, Tensor& db, bool accumulate) {
  constexpr const char* kOp = "bias_dw";
  cpu::check_dims(kOp, "dy", dy, 2);
  const int64_t tokens = dy.dim(0), width = dy.dim(1);
  cpu::check_tensor(kOp, "dy", dy, dy.dtype, {tokens, width});
  cpu::check_flat(kOp, "db", db, cpu::gradient_type(dy.dtype, db), width);
  TESSERA_ON_CUDA(bias_dw(ctx, dy, db, accumulate));
  cpu::dispatch(kOp, dy.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* grads = dy.as<T>();
    const auto term = [=](int64_t t, int64_t c) { return cpu::widen(grads[t * width + c]); };
    cpu::column_sums<T>(ctx, tokens, width, term, db, accumulate);
  });
}

}  // namespace tessera::kernels
