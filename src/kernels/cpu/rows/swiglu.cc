#include "kernels/cpu/bodies.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/independent.h"

namespace tessera::kernels::cpu {
namespace {

template <typename A>
A sigmoid(A x) {
  return A{1} / (A{1} + fast_exp(-x));
}

template <typename T>
void swiglu_row(const T* gate, const T* up, T* h, int64_t width) {
  using A = Acc<T>;
  for (int64_t i = 0; i < width; ++i) {
    const A g = widen(gate[i]);
    h[i] = narrow<T>(g * sigmoid(g) * widen(up[i]));
  }
}

// d_gate may be gate and d_up may be up: column i is read before it is written.
template <typename T>
void swiglu_grad_row(const T* dh, const T* gate, const T* up, T* d_gate, T* d_up, int64_t width) {
  using A = Acc<T>;
  TESSERA_INDEPENDENT
  for (int64_t i = 0; i < width; ++i) {
    const A g = widen(gate[i]);
    const A u = widen(up[i]);
    const A d = widen(dh[i]);
    const A s = sigmoid(g);
    d_gate[i] = narrow<T>(d * u * s * (A{1} + g * (A{1} - s)));
    d_up[i] = narrow<T>(d * g * s);
  }
}

}  // namespace

void swiglu(Context& ctx, const Tensor& gate_up, Tensor& h) {
  const int64_t tokens = h.dim(0), width = h.dim(1);
  dispatch("swiglu", h.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ctx.workers.parallel_for(tokens, 8, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const T* row = gate_up.as<T>() + t * 2 * width;
        swiglu_row(row, row + width, h.as<T>() + t * width, width);
      }
    });
  });
}

void swiglu_grad(Context& ctx, const Tensor& dh, const Tensor& gate_up, Tensor& d_gate_up) {
  const int64_t tokens = dh.dim(0), width = dh.dim(1);
  dispatch("swiglu_grad", dh.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ctx.workers.parallel_for(tokens, 8, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const T* row = gate_up.as<T>() + t * 2 * width;
        T* grad = d_gate_up.as<T>() + t * 2 * width;
        swiglu_grad_row(dh.as<T>() + t * width, row, row + width, grad, grad + width, width);
      }
    });
  });
}

}  // namespace tessera::kernels::cpu
