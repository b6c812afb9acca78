// Products of 8 bits on a GPU are not there yet: a run that asks for them is refused before it
// starts (spec/run_file/validate_fp8.cc).
#include "kernels/float8.h"

#include "base/error.h"
#include "kernels/cuda/bodies.h"

namespace tessera::kernels::cuda {
namespace {

[[noreturn]] void refuse(const char* op) {
  throw Error(fmt::format("{}: there is no kernel for a GPU; train with dtype = \"bf16\"", op));
}

}  // namespace

void amax(Context&, const Tensor&, Tensor&, const Scaling&) { refuse("amax"); }
void quantise(Context&, const Tensor&, const Tensor&, Tensor&, const Scaling&) {
  refuse("quantise");
}
void fp8_linear(Context&, const Float8Matrix&, const Float8Matrix&, Tensor&) {
  refuse("fp8_linear");
}
void fp8_linear_dx(Context&, const Float8Matrix&, const Float8Matrix&, Tensor&, bool) {
  refuse("fp8_linear_dx");
}
void fp8_linear_dw(Context&, const Float8Matrix&, const Float8Matrix&, Tensor&, DType, bool) {
  refuse("fp8_linear_dw");
}

}  // namespace tessera::kernels::cuda
