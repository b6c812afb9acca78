// One instruction of the compute stream -> one kernel call.
#pragma once

#include "compile/program/program.h"
#include "kernels/context.h"

namespace tessera {

// `tensors`: one per buffer of the program. Allocates nothing.
void run_kernel(kernels::Context& context, const Instruction& instruction,
                std::span<const Tensor> tensors);

}  // namespace tessera
