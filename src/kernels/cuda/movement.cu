// Plain movement and element-wise arithmetic.
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device.cuh"

namespace tessera::kernels::cuda {
namespace {

using tessera::cuda::check;

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
  dispatch("copy", x.dtype, [&](auto from_tag) {
    using From = typename decltype(from_tag)::type;
    dispatch("copy", y.dtype, [&](auto to_tag) {
      using To = typename decltype(to_tag)::type;
      const From* from = x.as<From>();
      To* to = y.as<To>();
      for_each("copy", *ctx.gpu, x.numel(), [=] __device__(int64_t i) {
        to[i] = narrow<To>(static_cast<Acc<To>>(widen(from[i])));
      });
    });
  });
}

void accumulate_into(Context& ctx, const Tensor& x, Tensor& y) {
  dispatch("accumulate_into", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = x.as<T>();
    auto* to = y.as<Acc<T>>();
    for_each("accumulate_into", *ctx.gpu, x.numel(),
             [=] __device__(int64_t i) { to[i] += widen(from[i]); });
  });
}

void scale(Context& ctx, Tensor& x, double factor) {
  dispatch("scale", x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* data = x.as<T>();
    const auto by = static_cast<Acc<T>>(factor);
    for_each("scale", *ctx.gpu, x.numel(),
             [=] __device__(int64_t i) { data[i] = narrow<T>(widen(data[i]) * by); });
  });
}

void add(Context& ctx, const Tensor& a, const Tensor& b, Tensor& y) {
  dispatch("add", y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* left = a.as<T>();
    const T* right = b.as<T>();
    T* out = y.as<T>();
    for_each("add", *ctx.gpu, y.numel(),
             [=] __device__(int64_t i) { out[i] = narrow<T>(widen(left[i]) + widen(right[i])); });
  });
}

}  // namespace tessera::kernels::cuda
