#include "kernels/cpu/check.h"
#include "kernels/kernels.h"
#include "kernels/on_cuda.h"

namespace tessera::kernels {
namespace {

using cpu::Acc;

template <typename A>
constexpr A kSlope = static_cast<A>(0.7978845608028654);  // sqrt(2 / pi)
template <typename A>
constexpr A kCubic = static_cast<A>(0.044715);

// (1 + tanh(u)) / 2 is the sigmoid of 2u, with u = kSlope * (x + kCubic * x^3).
template <typename A>
A gate(A x) {
  const A twice = A{2} * kSlope<A> * x * (A{1} + kCubic<A> * x * x);
  return A{1} / (A{1} + cpu::fast_exp(-twice));
}

}  // namespace

void gelu(Context& ctx, const Tensor& x, Tensor& h) {
  constexpr const char* kOp = "gelu";
  const int64_t count = x.numel();
  cpu::check_flat(kOp, "x", x, x.dtype, count);
  cpu::check_flat(kOp, "h", h, x.dtype, count);
  TESSERA_ON_CUDA(gelu(ctx, x, h));
  cpu::dispatch(kOp, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ctx.workers.parallel_for(count, 1024, [&](int64_t begin, int64_t end) {
      const T* in = x.as<T>();
      T* out = h.as<T>();
#pragma GCC ivdep  // h may be x
      for (int64_t i = begin; i < end; ++i) {
        const Acc<T> value = cpu::widen(in[i]);
        out[i] = cpu::narrow<T>(value * gate(value));
      }
    });
  });
}

void gelu_grad(Context& ctx, const Tensor& dh, const Tensor& x, Tensor& dx) {
  constexpr const char* kOp = "gelu_grad";
  const int64_t count = x.numel();
  cpu::check_flat(kOp, "dh", dh, x.dtype, count);
  cpu::check_flat(kOp, "x", x, x.dtype, count);
  cpu::check_flat(kOp, "dx", dx, x.dtype, count);
  TESSERA_ON_CUDA(gelu_grad(ctx, dh, x, dx));
  cpu::dispatch(kOp, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = Acc<T>;
    ctx.workers.parallel_for(count, 1024, [&](int64_t begin, int64_t end) {
      const T* grads = dh.as<T>();
      const T* in = x.as<T>();
      T* out = dx.as<T>();
#pragma GCC ivdep  // dx may be x or dh
      for (int64_t i = begin; i < end; ++i) {
        const A value = cpu::widen(in[i]);
        const A s = gate(value);
        const A slope = A{2} * kSlope<A> * (A{1} + A{3} * kCubic<A> * value * value);
        const A derivative = s + value * s * (A{1} - s) * slope;
        out[i] = cpu::narrow<T>(cpu::widen(grads[i]) * derivative);
      }
    });
  });
}

}  // namespace tessera::kernels
