#include "kernels/cpu/bodies.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/exponentials/rows.h"

namespace tessera::kernels::cpu {
namespace {

void one_row(const float* gate, const float* up, float* h, int64_t width) {
  exponentials().swiglu(gate, up, h, width);
}
template <typename T>
void one_row(const T* gate, const T* up, T* h, int64_t width) {
  swiglu_row(gate, up, h, width);
}

void grad_of_row(const float* dh, const float* gate, const float* up, float* d_gate, float* d_up,
                 int64_t width) {
  exponentials().swiglu_grad(dh, gate, up, d_gate, d_up, width);
}
template <typename T>
void grad_of_row(const T* dh, const T* gate, const T* up, T* d_gate, T* d_up, int64_t width) {
  swiglu_grad_row(dh, gate, up, d_gate, d_up, width);
}

}  // namespace

void swiglu(Context& ctx, const Tensor& gate_up, Tensor& h) {
  const int64_t tokens = h.dim(0), width = h.dim(1);
  dispatch("swiglu", h.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ctx.workers.parallel_for(tokens, 8, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const T* row = gate_up.as<T>() + t * 2 * width;
        one_row(row, row + width, h.as<T>() + t * width, width);
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
        grad_of_row(dh.as<T>() + t * width, row, row + width, grad, grad + width, width);
      }
    });
  });
}

}  // namespace tessera::kernels::cpu
