// What GELU multiplies an element by.
#pragma once

#include "kernels/cpu/numeric.h"

namespace tessera::kernels::cpu {

template <typename A>
inline constexpr A kGeluSlope = static_cast<A>(0.7978845608028654);  // sqrt(2 / pi)
template <typename A>
inline constexpr A kGeluCubic = static_cast<A>(0.044715);

// (1 + tanh(u)) / 2 is the sigmoid of 2u, with u = kGeluSlope * (x + kGeluCubic * x^3).
template <typename A>
inline A gelu_gate(A x) {
  const A twice = A{2} * kGeluSlope<A> * x * (A{1} + kGeluCubic<A> * x * x);
  return A{1} / (A{1} + fast_exp(-twice));
}

}  // namespace tessera::kernels::cpu
