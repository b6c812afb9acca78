// Rotary positions of one row.
#pragma once

#include <cstdint>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/independent.h"

namespace tessera::kernels::cpu {

// One row: `num_heads` heads of 2 * half columns, turned by the angles of one position. x may be y.
template <typename T>
void rotate_row(const T* x, const Acc<T>* cos, const Acc<T>* sin, Acc<T> direction, T* y,
                int64_t num_heads, int64_t half) {
  using A = Acc<T>;
  for (int64_t head = 0; head < num_heads; ++head) {
    const T* in = x + head * 2 * half;
    T* out = y + head * 2 * half;
    // Each iteration reads and writes the same two columns, so x == y needs no care.
    TESSERA_INDEPENDENT
    for (int64_t d = 0; d < half; ++d) {
      const A first = widen(in[d]);
      const A second = widen(in[d + half]);
      const A turn = direction * sin[d];
      out[d] = narrow<T>(first * cos[d] - second * turn);
      out[d + half] = narrow<T>(second * cos[d] + first * turn);
    }
  }
}

}  // namespace tessera::kernels::cpu
