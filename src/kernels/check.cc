#include "kernels/check.h"

#include <string>

namespace tessera::kernels {
namespace {

std::string shape_of(const int64_t* dims, int num_dims) {
  std::string text = "[";
  for (int i = 0; i < num_dims; ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", dims[i]);
  return text + "]";
}

}  // namespace

void check_tensor(const char* op, const char* name, const Tensor& tensor, DType type,
                  std::initializer_list<int64_t> dims) {
  bool same = tensor.dtype == type && tensor.num_dims == static_cast<int>(dims.size());
  for (int i = 0; same && i < tensor.num_dims; ++i) same = tensor.dim(i) == dims.begin()[i];
  TESSERA_CHECK(same, "{}: {} is {} {}, expected {} {}", op, name, name_of(tensor.dtype),
                shape_of(tensor.dims.data(), tensor.num_dims), name_of(type),
                shape_of(dims.begin(), static_cast<int>(dims.size())));
  TESSERA_CHECK(tensor.data != nullptr || tensor.numel() == 0, "{}: {} has no memory", op, name);
}

void check_flat(const char* op, const char* name, const Tensor& tensor, DType type, int64_t numel) {
  TESSERA_CHECK(tensor.dtype == type && tensor.numel() == numel,
                "{}: {} is {} {}, expected {} with {} elements", op, name, name_of(tensor.dtype),
                shape_of(tensor.dims.data(), tensor.num_dims), name_of(type), numel);
  TESSERA_CHECK(tensor.data != nullptr || numel == 0, "{}: {} has no memory", op, name);
}

void check_dims(const char* op, const char* name, const Tensor& tensor, int num_dims) {
  TESSERA_CHECK(tensor.num_dims == num_dims, "{}: {} is {}, expected {} dims", op, name,
                shape_of(tensor.dims.data(), tensor.num_dims), num_dims);
}

void check_params(const char* op, const StepParams* params) {
  TESSERA_CHECK(params != nullptr, "{}: no parameters of the step", op);
}

}  // namespace tessera::kernels
