// Dispatch over storage types, shape checks and workspace carving, shared by all kernels.
#pragma once

#include <initializer_list>
#include <span>

#include "base/error.h"
#include "base/step_params.h"
#include "base/workspace.h"
#include "kernels/cpu/numeric.h"
#include "kernels/storage_types.h"
#include "tensor/tensor.h"

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

// Hands out aligned pieces of a workspace. Refuses one smaller than `needed` bytes at once.
class Scratch {
 public:
  Scratch(const char* op, std::span<std::byte> workspace, int64_t needed)
      : op_(op), workspace_(workspace) {
    TESSERA_CHECK(static_cast<int64_t>(workspace.size()) >= needed,
                  "{}: workspace of {} bytes, needs {}", op, workspace.size(), needed);
  }

  template <typename T>
  T* take(int64_t elements) {
    const int64_t bytes = elements * static_cast<int64_t>(sizeof(T));
    const int64_t begin = used_;
    used_ += (bytes + workspace::kAlignBytes - 1) / workspace::kAlignBytes * workspace::kAlignBytes;
    TESSERA_CHECK(used_ <= static_cast<int64_t>(workspace_.size()),
                  "{}: takes {} bytes of a workspace of {}", op_, used_, workspace_.size());
    return reinterpret_cast<T*>(workspace_.data() + begin);
  }

 private:
  const char* op_;
  std::span<std::byte> workspace_;
  int64_t used_ = 0;
};

// Member i's equal share of a workspace.
inline std::span<std::byte> member_part(std::span<std::byte> workspace, int64_t bytes, int member) {
  return workspace.subspan(static_cast<size_t>(bytes * member), static_cast<size_t>(bytes));
}

}  // namespace tessera::kernels::cpu
