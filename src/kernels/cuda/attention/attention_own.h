// Attention by kernels of our own, which serve every type and shape. The output's type says whether
// it is wanted in the storage type or in the accumulate type.
#pragma once

#include "kernels/attention.h"

namespace tessera::kernels::cuda {

decltype(kernels::attention_part) own_attention;
decltype(kernels::attention_grad_part) own_attention_grad;

// f64 and f32, by ordinary arithmetic.
decltype(kernels::attention_part) simt_attention;
decltype(kernels::attention_grad_part) simt_attention_grad;
// bf16 and f16, on tensor cores.
decltype(kernels::attention_part) mma_attention;
decltype(kernels::attention_grad_part) mma_attention_grad;

}  // namespace tessera::kernels::cuda
