// From the storage type of a tensor to the types that a body is compiled for.
#pragma once

#include "base/dtype.h"
#include "kernels/cpu/numeric.h"
#include "kernels/storage_types.h"

namespace tessera::kernels::cpu {

// Calls f(TypeTag<T>{}) for the floating storage type `type`.
template <typename F>
void dispatch(const char* op, DType type, const F& f) {
  with_storage_type<BFloat16, Float16>(op, type, f);
}
// The same for the type of a weight gradient beside activations of T.
template <typename T, typename F>
void with_gradient(const Tensor& gradient, const F& f) {
  with_gradient_type<BFloat16, T, Acc<T>>(gradient, f);
}

}  // namespace tessera::kernels::cpu
