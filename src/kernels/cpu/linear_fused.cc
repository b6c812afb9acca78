// On the CPU what follows a product is one pass of its own: the arithmetic is the same.
#include "kernels/cpu/bodies.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/gelu_gate.h"
#include "kernels/cpu/independent.h"

namespace tessera::kernels::cpu {
namespace {

// z += b and h = gelu(z), of which both are kept: one pass instead of two over what no cache holds.
template <typename T>
void add_bias_and_gelu(Context& ctx, const Tensor& b, Tensor& z, Tensor& h) {
  constexpr int64_t kTokens = 8;
  const int64_t width = z.dim(1);
  ctx.workers.parallel_for(z.dim(0), kTokens, [&](int64_t begin, int64_t end) {
    const T* bias = b.as<T>();
    for (int64_t t = begin; t < end; ++t) {
      T* sum = z.as<T>() + t * width;
      T* out = h.as<T>() + t * width;
      TESSERA_INDEPENDENT
      for (int64_t i = 0; i < width; ++i) {
        sum[i] = narrow<T>(widen(sum[i]) + widen(bias[i]));
        const Acc<T> value = widen(sum[i]);
        out[i] = narrow<T>(value * gelu_gate(value));
      }
    }
  });
}

}  // namespace

void linear_bias(Context& ctx, const Tensor& x, const Tensor& w, const Tensor& b, Tensor& z,
                 Tensor& h) {
  cpu::linear(ctx, x, w, z);
  if (h.data == nullptr) return cpu::add_bias(ctx, z, b, z);
  dispatch("linear_bias", z.dtype,
           [&](auto tag) { add_bias_and_gelu<typename decltype(tag)::type>(ctx, b, z, h); });
}

void linear_dx_gelu(Context& ctx, const Tensor& dy, const Tensor& w, const Tensor& z, Tensor& dz) {
  cpu::linear_dx(ctx, dy, w, dz, /*accumulate=*/false);
  cpu::gelu_grad(ctx, dz, z, dz);
}

void linear_dw_bias(Context& ctx, const Tensor& dy, const Tensor& x, Tensor& dw, Tensor& db,
                    bool accumulate) {
  cpu::linear_dw(ctx, dy, x, dw, accumulate);
  cpu::bias_dw(ctx, dy, db, accumulate);
}

}  // namespace tessera::kernels::cpu
