// Attention by kernels of our own, which serve every type and shape. The output's type says whether
// it is wanted in the storage type or in the accumulate type.
#pragma once

#include "kernels/kernels.h"

namespace tessera::kernels::cuda {

decltype(kernels::attention_part) own_attention;
decltype(kernels::attention_grad_part) own_attention_grad;

}  // namespace tessera::kernels::cuda
