// From a kernel to its body for a device. The list below names every kernel once; of it are made
// the table of a device's bodies and their declarations (cpu/bodies.h, cuda/bodies.h), so that a
// body that is missing, or of another type than its kernel, does not link.
#pragma once

#include "kernels/kernels.h"

// clang-format off
#define TESSERA_EVERY_KERNEL(X) \
  /* linear.h */ \
  X(linear) X(linear_dx) X(linear_dw) X(linear_bias) X(linear_dx_gelu) X(linear_dw_bias) \
  /* embedding.h */ \
  X(embedding) X(embedding_dw) X(add_positions) X(positions_dw) \
  /* norms.h */ \
  X(rms_norm) X(add_rms_norm) X(rms_norm_dx) X(rms_norm_dw) X(rms_norm_grad) X(layer_norm) \
  X(add_layer_norm) X(layer_norm_dx) X(layer_norm_dw) X(layer_norm_dw_bias) \
  X(layer_norm_grad) X(head_norm) X(head_norm_dx) X(head_norm_dw) \
  /* attention.h */ \
  X(rope) X(attention) X(attention_grad) X(attention_part) X(attention_grad_part) \
  /* elementwise.h */ \
  X(add) X(add_bias) X(bias_dw) X(gelu) X(gelu_grad) X(swiglu) X(swiglu_grad) X(dropout) \
  /* loss.h */ \
  X(cross_entropy_stats) X(cross_entropy_loss) X(cross_entropy_grad) \
  /* optimizer.h */ \
  X(sum_squares) X(add_metrics) X(count_tokens) X(adamw) X(sgd) \
  /* movement.h */ \
  X(fill_zero) X(copy) X(accumulate_into) X(scale) X(split_columns) X(join_columns) \
  /* experts.h */ \
  X(router) X(router_grad) X(router_stats) X(router_stats_grad) X(dispatch_rows) \
  X(dispatch_rows_grad) X(combine_rows) X(combine_rows_grad) X(expert_linear) \
  X(expert_linear_dx) X(expert_linear_dw) X(expert_swiglu) X(expert_swiglu_grad) \
  X(balance_totals) X(balance_loss) X(balance_grad) \
  /* serving.h */ \
  X(serve_linear) X(serve_expert_linear) X(rope_at) X(positions_at) X(take_rows) X(cache_write) \
  X(paged_attention) \
  /* float8.h */ \
  X(amax) X(quantise) X(fp8_linear) X(fp8_linear_dx) X(fp8_linear_dw)
// clang-format on

namespace tessera::kernels {

// A body has the type of its kernel, and is called when the kernel has checked the arguments.
struct Bodies {
#define TESSERA_BODY(kernel) decltype(&kernels::kernel) kernel;
  TESSERA_EVERY_KERNEL(TESSERA_BODY)
#undef TESSERA_BODY
};
// In the namespace of a device: declares its bodies, and lists them as the fields of Bodies.
#define TESSERA_DECLARE_BODY(kernel) decltype(kernels::kernel) kernel;
#define TESSERA_ADDRESS_OF_BODY(kernel) &kernel,

namespace cpu {
const Bodies& bodies();
}
namespace cuda {
// Throws Error in a program that was built without CUDA (cuda/absent).
const Bodies& bodies();
}  // namespace cuda

// Those of the device that is to compute. A device more is a line more here.
inline const Bodies& bodies_of(const Context& ctx) {
  return ctx.gpu != nullptr ? cuda::bodies() : cpu::bodies();
}

}  // namespace tessera::kernels
