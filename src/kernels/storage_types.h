// From the type in a Tensor to a type of C++. Devices name their narrow types differently, so both
// are parameters.
#pragma once

#include <type_traits>

#include "tensor/tensor.h"

namespace tessera::kernels {

template <typename T>
struct TypeTag {
  using type = T;
};

// Calls f(TypeTag<T>{}) for the floating storage type `type`.
template <typename Bf16, typename F16, typename F>
void with_storage_type(const char* op, DType type, const F& f) {
  switch (type) {
    case DType::kF64:
      return f(TypeTag<double>{});
    case DType::kF32:
      return f(TypeTag<float>{});
    case DType::kBF16:
      return f(TypeTag<Bf16>{});
    case DType::kF16:
      return f(TypeTag<F16>{});
    default:
      break;
  }
  TESSERA_CHECK(false, "{}: no arithmetic on {}", op, name_of(type));
}

// Calls f(TypeTag<G>{}) for the type of a weight gradient beside activations of T: their accumulate
// type A, or bf16 beside bf16.
template <typename Bf16, typename T, typename A, typename F>
void with_gradient_type(const Tensor& gradient, const F& f) {
  if constexpr (std::is_same_v<T, Bf16>) {
    if (gradient.dtype == DType::kBF16) return f(TypeTag<Bf16>{});
  }
  f(TypeTag<A>{});
}

}  // namespace tessera::kernels
