// Bodies that are still to be written. Deleted when there are none.
#include "base/error.h"
#include "kernels/cuda/bodies.h"

namespace tessera::kernels::cuda {
namespace {
[[noreturn]] void missing(const char* op) {
  throw InternalError(fmt::format("{}: no CUDA body yet", op));
}
}  // namespace

__attribute__((weak)) void rms_norm(Context& /*ctx*/, const Tensor& /*x*/, const Tensor& /*w*/,
                                    Tensor& /*y*/, Tensor& /*rstd*/, double /*eps*/) {
  missing("rms_norm");
}
__attribute__((weak)) void add_rms_norm(Context& /*ctx*/, const Tensor& /*a*/, const Tensor& /*b*/,
                                        const Tensor& /*w*/, Tensor& /*sum*/, Tensor& /*y*/,
                                        Tensor& /*rstd*/, double /*eps*/) {
  missing("add_rms_norm");
}
__attribute__((weak)) void rms_norm_dx(Context& /*ctx*/, const Tensor& /*dy*/, const Tensor& /*x*/,
                                       const Tensor& /*w*/, const Tensor& /*rstd*/,
                                       const Tensor& /*residual*/, Tensor& /*dx*/) {
  missing("rms_norm_dx");
}
__attribute__((weak)) void rms_norm_dw(Context& /*ctx*/, const Tensor& /*dy*/, const Tensor& /*x*/,
                                       const Tensor& /*rstd*/, Tensor& /*dw*/,
                                       bool /*accumulate*/) {
  missing("rms_norm_dw");
}
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
__attribute__((weak)) void swiglu(Context& /*ctx*/, const Tensor& /*gate_up*/, Tensor& /*h*/) {
  missing("swiglu");
}
__attribute__((weak)) void swiglu_grad(Context& /*ctx*/, const Tensor& /*dh*/,
                                       const Tensor& /*gate_up*/, Tensor& /*d_gate_up*/) {
  missing("swiglu_grad");
}
__attribute__((weak)) void layer_norm(Context& /*ctx*/, const Tensor& /*x*/, const Tensor& /*w*/,
                                      const Tensor& /*b*/, Tensor& /*y*/, Tensor& /*stats*/,
                                      double /*eps*/) {
  missing("layer_norm");
}
__attribute__((weak)) void add_layer_norm(Context& /*ctx*/, const Tensor& /*a1*/,
                                          const Tensor& /*a2*/, const Tensor& /*w*/,
                                          const Tensor& /*b*/, Tensor& /*sum*/, Tensor& /*y*/,
                                          Tensor& /*stats*/, double /*eps*/) {
  missing("add_layer_norm");
}
__attribute__((weak)) void layer_norm_dx(Context& /*ctx*/, const Tensor& /*dy*/,
                                         const Tensor& /*x*/, const Tensor& /*w*/,
                                         const Tensor& /*stats*/, const Tensor& /*residual*/,
                                         Tensor& /*dx*/) {
  missing("layer_norm_dx");
}
__attribute__((weak)) void layer_norm_dw(Context& /*ctx*/, const Tensor& /*dy*/,
                                         const Tensor& /*x*/, const Tensor& /*stats*/,
                                         Tensor& /*dw*/, bool /*accumulate*/) {
  missing("layer_norm_dw");
}
__attribute__((weak)) void add_bias(Context& /*ctx*/, const Tensor& /*x*/, const Tensor& /*b*/,
                                    Tensor& /*y*/) {
  missing("add_bias");
}
__attribute__((weak)) void bias_dw(Context& /*ctx*/, const Tensor& /*dy*/, Tensor& /*db*/,
                                   bool /*accumulate*/) {
  missing("bias_dw");
}
__attribute__((weak)) void gelu(Context& /*ctx*/, const Tensor& /*x*/, Tensor& /*h*/) {
  missing("gelu");
}
__attribute__((weak)) void gelu_grad(Context& /*ctx*/, const Tensor& /*dh*/, const Tensor& /*x*/,
                                     Tensor& /*dx*/) {
  missing("gelu_grad");
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
__attribute__((weak)) void add(Context& /*ctx*/, const Tensor& /*a*/, const Tensor& /*b*/,
                               Tensor& /*y*/) {
  missing("add");
}
__attribute__((weak)) void dropout(Context& /*ctx*/, const Tensor& /*x*/, Tensor& /*y*/,
                                   const DropoutMask& /*mask*/, const SequenceRows& /*rows*/,
                                   int64_t /*first_token*/) {
  missing("dropout");
}
__attribute__((weak)) void fill_zero(Context& /*ctx*/, Tensor& /*x*/) { missing("fill_zero"); }
__attribute__((weak)) void copy(Context& /*ctx*/, const Tensor& /*x*/, Tensor& /*y*/) {
  missing("copy");
}
__attribute__((weak)) void accumulate_into(Context& /*ctx*/, const Tensor& /*x*/, Tensor& /*y*/) {
  missing("accumulate_into");
}
__attribute__((weak)) void scale(Context& /*ctx*/, Tensor& /*x*/, double /*factor*/) {
  missing("scale");
}
__attribute__((weak)) void router(Context& /*ctx*/, const Tensor& /*logits*/, Tensor& /*gates*/,
                                  Tensor& /*ids*/) {
  missing("router");
}
__attribute__((weak)) void router_grad(Context& /*ctx*/, const Tensor& /*d_gates*/,
                                       const Tensor& /*gates*/, const Tensor& /*ids*/,
                                       Tensor& /*d_logits*/, bool /*accumulate*/) {
  missing("router_grad");
}
__attribute__((weak)) void router_stats(Context& /*ctx*/, const Tensor& /*logits*/,
                                        const Tensor& /*ids*/, const RouterRows& /*rows*/,
                                        Tensor& /*stats*/, Tensor& /*load*/, bool /*accumulate*/) {
  missing("router_stats");
}
__attribute__((weak)) void router_stats_grad(Context& /*ctx*/, const Tensor& /*logits*/,
                                             const Tensor& /*d_stats*/, const RouterRows& /*rows*/,
                                             Tensor& /*d_logits*/, bool /*accumulate*/) {
  missing("router_stats_grad");
}
__attribute__((weak)) void dispatch_rows(Context& /*ctx*/, const Tensor& /*x*/,
                                         const Tensor& /*ids*/, Tensor& /*rows*/,
                                         Tensor& /*counts*/, Tensor& /*slots*/) {
  missing("dispatch_rows");
}
__attribute__((weak)) void dispatch_rows_grad(Context& /*ctx*/, const Tensor& /*d_rows*/,
                                              const Tensor& /*slots*/, Tensor& /*dx*/) {
  missing("dispatch_rows_grad");
}
__attribute__((weak)) void combine_rows(Context& /*ctx*/, const Tensor& /*rows*/,
                                        const Tensor& /*slots*/, const Tensor& /*gates*/,
                                        Tensor& /*y*/) {
  missing("combine_rows");
}
__attribute__((weak)) void combine_rows_grad(Context& /*ctx*/, const Tensor& /*dy*/,
                                             const Tensor& /*rows*/, const Tensor& /*slots*/,
                                             const Tensor& /*gates*/, Tensor& /*d_rows*/,
                                             Tensor& /*d_gates*/) {
  missing("combine_rows_grad");
}
__attribute__((weak)) void balance_totals(Context& /*ctx*/, const Tensor& /*stats*/,
                                          const Tensor& /*labels*/, Tensor& /*totals*/) {
  missing("balance_totals");
}
__attribute__((weak)) void balance_loss(Context& /*ctx*/, const Tensor& /*totals*/,
                                        const Tensor& /*labels*/, int64_t /*num_sequences*/,
                                        const BalanceShape& /*shape*/, Tensor& /*loss*/,
                                        bool /*accumulate*/) {
  missing("balance_loss");
}
__attribute__((weak)) void balance_grad(Context& /*ctx*/, const Tensor& /*totals*/,
                                        const BalanceShape& /*shape*/, Tensor& /*d_totals*/) {
  missing("balance_grad");
}

}  // namespace tessera::kernels::cuda
