#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device/map.cuh"
#include "kernels/cuda/device/sigmoid.cuh"

namespace tessera::kernels::cuda {
namespace {

template <typename A>
constexpr A kSlope = static_cast<A>(0.7978845608028654);  // sqrt(2 / pi)
template <typename A>
constexpr A kCubic = static_cast<A>(0.044715);

// (1 + tanh(u)) / 2 is the sigmoid of 2u, with u = kSlope * (x + kCubic * x^3).
template <typename T>
__device__ Acc<T> gate(Acc<T> x) {
  using A = Acc<T>;
  return sigmoid<T>(A{2} * kSlope<A> * x * (A{1} + kCubic<A> * x * x));
}

template <typename T>
void forward(const Gpu& gpu, int64_t count, const T* x, T* h) {
  flat_map(
      "gelu", gpu, count, [] __device__(Acc<T> value) { return value * gate<T>(value); }, h, x);
}

template <typename T>
void backward(const Gpu& gpu, int64_t count, const T* dh, const T* x, T* dx) {
  using A = Acc<T>;
  flat_map(
      "gelu_grad", gpu, count,
      [] __device__(A grad, A value) {
        const A s = gate<T>(value);
        const A slope = A{2} * kSlope<A> * (A{1} + A{3} * kCubic<A> * value * value);
        return grad * (s + value * s * (A{1} - s) * slope);
      },
      dx, dh, x);
}

}  // namespace

void gelu(Context& ctx, const Tensor& x, Tensor& h) {
  dispatch("gelu", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    forward(*ctx.gpu, x.numel(), x.as<T>(), h.as<T>());
  });
}

void gelu_grad(Context& ctx, const Tensor& dh, const Tensor& x, Tensor& dx) {
  dispatch("gelu_grad", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    backward(*ctx.gpu, x.numel(), dh.as<T>(), x.as<T>(), dx.as<T>());
  });
}

}  // namespace tessera::kernels::cuda
