// Bodies that are still to be written. Deleted when there are none.
#include "base/error.h"
#include "kernels/cuda/bodies.h"

namespace tessera::kernels::cuda {
namespace {
[[noreturn]] void missing(const char* op) {
  throw InternalError(fmt::format("{}: no CUDA body yet", op));
}
}  // namespace

__attribute__((weak)) void rope(Context& /*ctx*/, const Tensor& /*x*/, const Tensor& /*cos*/,
                                const Tensor& /*sin*/, Tensor& /*y*/, int64_t /*num_heads*/,
                                bool /*inverse*/) {
  missing("rope");
}
__attribute__((weak)) void split_columns(Context& /*ctx*/, const Tensor& /*x*/, Tensor& /*y*/,
                                         int64_t /*groups*/) {
  missing("split_columns");
}
__attribute__((weak)) void join_columns(Context& /*ctx*/, const Tensor& /*x*/, Tensor& /*y*/,
                                        int64_t /*groups*/) {
  missing("join_columns");
}
__attribute__((weak)) void add_positions(Context& /*ctx*/, const Tensor& /*x*/,
                                         const Tensor& /*table*/, Tensor& /*y*/,
                                         const SequenceRows& /*rows*/, int64_t /*first_token*/) {
  missing("add_positions");
}
__attribute__((weak)) void positions_dw(Context& /*ctx*/, const Tensor& /*dy*/, Tensor& /*dtable*/,
                                        const SequenceRows& /*rows*/, int64_t /*first_token*/,
                                        bool /*accumulate*/) {
  missing("positions_dw");
}
__attribute__((weak)) void head_norm(Context& /*ctx*/, const Tensor& /*x*/, const Tensor& /*w*/,
                                     Tensor& /*y*/, Tensor& /*rstd*/, double /*eps*/) {
  missing("head_norm");
}
__attribute__((weak)) void head_norm_dx(Context& /*ctx*/, const Tensor& /*dy*/, const Tensor& /*x*/,
                                        const Tensor& /*w*/, const Tensor& /*rstd*/,
                                        Tensor& /*dx*/) {
  missing("head_norm_dx");
}
__attribute__((weak)) void head_norm_dw(Context& /*ctx*/, const Tensor& /*dy*/, const Tensor& /*x*/,
                                        const Tensor& /*rstd*/, Tensor& /*dw*/,
                                        bool /*accumulate*/) {
  missing("head_norm_dw");
}
__attribute__((weak)) void dropout(Context& /*ctx*/, const Tensor& /*x*/, Tensor& /*y*/,
                                   const DropoutMask& /*mask*/, const SequenceRows& /*rows*/,
                                   int64_t /*first_token*/) {
  missing("dropout");
}
__attribute__((weak)) void expert_linear(Context& /*ctx*/, const Tensor& /*x*/, const Tensor& /*w*/,
                                         const Tensor& /*counts*/, Tensor& /*y*/) {
  missing("expert_linear");
}
__attribute__((weak)) void expert_linear_dx(Context& /*ctx*/, const Tensor& /*dy*/,
                                            const Tensor& /*w*/, const Tensor& /*counts*/,
                                            Tensor& /*dx*/) {
  missing("expert_linear_dx");
}
__attribute__((weak)) void expert_linear_dw(Context& /*ctx*/, const Tensor& /*dy*/,
                                            const Tensor& /*x*/, const Tensor& /*counts*/,
                                            Tensor& /*dw*/, bool /*accumulate*/) {
  missing("expert_linear_dw");
}
__attribute__((weak)) void expert_swiglu(Context& /*ctx*/, const Tensor& /*gate_up*/,
                                         const Tensor& /*counts*/, Tensor& /*h*/) {
  missing("expert_swiglu");
}
__attribute__((weak)) void expert_swiglu_grad(Context& /*ctx*/, const Tensor& /*dh*/,
                                              const Tensor& /*gate_up*/, const Tensor& /*counts*/,
                                              Tensor& /*d_gate_up*/) {
  missing("expert_swiglu_grad");
}

}  // namespace tessera::kernels::cuda
