// Instructions of a mixture of experts -> kernel calls.
#pragma once

#include "compile/program/program.h"
#include "runtime/dispatch.h"

namespace tessera {

// False when the instruction is none of them. Allocates nothing.
bool run_expert_kernel(kernels::Context& context, const Instruction& instruction,
                       std::span<const Tensor> tensors);

}  // namespace tessera
