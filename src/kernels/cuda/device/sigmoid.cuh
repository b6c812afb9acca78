// The sigmoid, as exact as storage type T deserves.
#pragma once

#include "kernels/cuda/device/device.cuh"

namespace tessera::kernels::cuda {

// 1 / (1 + exp(-x)). For 16-bit storage by the GPU's own exp and division: within 2^-20, and the
// other way bodies would wait for arithmetic instead of memory.
template <typename T>
__device__ inline Acc<T> sigmoid(Acc<T> x) {
  if constexpr (sizeof(T) == 2) {
    return __fdividef(1.0F, 1.0F + __expf(-x));
  } else {
    return Acc<T>{1} / (Acc<T>{1} + exp(-x));
  }
}

}  // namespace tessera::kernels::cuda
