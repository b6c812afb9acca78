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

}  // namespace tessera::kernels::cuda
