// SwiGLU of a row. Always inlined: a level (levels/exponentials.h) has it compiled for itself.
#pragma once

#include "kernels/cpu/independent.h"
#include "kernels/cpu/numeric.h"

namespace tessera::kernels::cpu {

template <typename A>
[[gnu::always_inline]] inline A sigmoid(A x) {
  return A{1} / (A{1} + fast_exp(-x));
}

template <typename T>
[[gnu::always_inline]] inline void swiglu_row(const T* gate, const T* up, T* h, int64_t width) {
  using A = Acc<T>;
  for (int64_t i = 0; i < width; ++i) {
    const A g = widen(gate[i]);
    h[i] = narrow<T>(g * sigmoid(g) * widen(up[i]));
  }
}

// d_gate may be gate and d_up may be up: column i is read before it is written.
template <typename T>
[[gnu::always_inline]] inline void swiglu_grad_row(const T* dh, const T* gate, const T* up,
                                                   T* d_gate, T* d_up, int64_t width) {
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

}  // namespace tessera::kernels::cpu
