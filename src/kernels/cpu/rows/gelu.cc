#include "kernels/cpu/bodies.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/gelu_gate.h"
#include "kernels/cpu/map.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t kGrain = 1024;

}  // namespace

void gelu(Context& ctx, const Tensor& x, Tensor& h) {
  const int64_t count = x.numel();
  dispatch("gelu", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto gelu_of = [](Acc<T> value) { return value * gelu_gate(value); };
    map(ctx, count, kGrain, h.as<T>(), gelu_of, x.as<const T>());
  });
}

void gelu_grad(Context& ctx, const Tensor& dh, const Tensor& x, Tensor& dx) {
  const int64_t count = x.numel();
  dispatch("gelu_grad", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    const auto gradient = [](A grad, A value) {
      const A s = gelu_gate(value);
      const A slope = A{2} * kGeluSlope<A> * (A{1} + A{3} * kGeluCubic<A> * value * value);
      const A derivative = s + value * s * (A{1} - s) * slope;
      return grad * derivative;
    };
    map(ctx, count, kGrain, dx.as<T>(), gradient, dh.as<const T>(), x.as<const T>());
  });
}

}  // namespace tessera::kernels::cpu
