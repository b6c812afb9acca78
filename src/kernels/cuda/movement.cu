// Plain movement and element-wise arithmetic.
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device/map.cuh"

namespace tessera::kernels::cuda {
namespace {

using tessera::cuda::check;

template <typename From, typename To>
void convert(const Gpu& gpu, int64_t count, const From* from, To* to) {
  flat_map(
      "copy", gpu, count, [] __device__(Acc<From> x) { return x; }, to, from);
}

template <typename T, typename G>
void accumulate(const Gpu& gpu, int64_t count, const T* from, G* to) {
  flat_map(
      "accumulate_into", gpu, count, [] __device__(Acc<T> sum, Acc<T> x) { return sum + x; }, to,
      to, from);
}

template <typename T>
void multiply(const Gpu& gpu, int64_t count, T* data, Acc<T> factor) {
  flat_map(
      "scale", gpu, count, [factor] __device__(Acc<T> x) { return x * factor; }, data, data);
}

template <typename T>
void add_two(const Gpu& gpu, int64_t count, const T* a, const T* b, T* y) {
  flat_map(
      "add", gpu, count, [] __device__(Acc<T> left, Acc<T> right) { return left + right; }, y, a,
      b);
}

}  // namespace

void fill_zero(Context& ctx, Tensor& x) {
  check(cudaMemsetAsync(x.data, 0, static_cast<size_t>(x.bytes()), ctx.gpu->stream()), "fill_zero");
}

void copy(Context& ctx, const Tensor& x, Tensor& y) {
  if (x.dtype == y.dtype) {
    check(cudaMemcpyAsync(y.data, x.data, static_cast<size_t>(x.bytes()), cudaMemcpyDeviceToDevice,
                          ctx.gpu->stream()),
          "copy");
    return;
  }
  dispatch("copy", x.dtype, [&](auto from) {
    dispatch("copy", y.dtype, [&](auto to) {
      using From = typename decltype(from)::type;
      using To = typename decltype(to)::type;
      convert(*ctx.gpu, x.numel(), x.as<From>(), y.as<To>());
    });
  });
}

void accumulate_into(Context& ctx, const Tensor& x, Tensor& y) {
  dispatch("accumulate_into", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_gradient<T>(y, [&](auto gradient) {
      accumulate(*ctx.gpu, x.numel(), x.as<T>(), y.as<typename decltype(gradient)::type>());
    });
  });
}

void scale(Context& ctx, Tensor& x, double factor) {
  dispatch("scale", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    multiply(*ctx.gpu, x.numel(), x.as<T>(), static_cast<Acc<T>>(factor));
  });
}

void add(Context& ctx, const Tensor& a, const Tensor& b, Tensor& y) {
  dispatch("add", y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    add_two(*ctx.gpu, y.numel(), a.as<T>(), b.as<T>(), y.as<T>());
  });
}

}  // namespace tessera::kernels::cuda
