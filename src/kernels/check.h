// What the kernels check before a device computes.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "base/error.h"
#include "base/step_params.h"
#include "tensor/tensor.h"

namespace tessera::kernels {

// Weight gradients are stored in the accumulate type, or in bf16 beside bf16 activations: the type
// that `gradient` should have.
inline DType gradient_type(DType activations, const Tensor& gradient) {
  const bool narrow = activations == DType::kBF16 && gradient.dtype == DType::kBF16;
  return narrow ? DType::kBF16 : accumulate_type(activations);
}

// Throws InternalError unless `tensor` has this type and these dims, and memory if it has elements.
void check_tensor(const char* op, const char* name, const Tensor& tensor, DType type,
                  std::initializer_list<int64_t> dims);
// As above for flat tensors: only the number of elements matters.
void check_flat(const char* op, const char* name, const Tensor& tensor, DType type, int64_t numel);
void check_dims(const char* op, const char* name, const Tensor& tensor, int num_dims);
void check_params(const char* op, const StepParams* params);

}  // namespace tessera::kernels
