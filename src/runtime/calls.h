// One instruction that communicates -> one call of its group. A shift is two: see runtime/shift.h.
#pragma once

#include "comm/communicator.h"
#include "compile/program/program.h"
#include "tensor/tensor.h"

namespace tessera {

// `in` and `out` are the instruction's first input and output; `peers` the size of its group.
CollectiveCall call_of(const Instruction& instruction, int peers, const Tensor& in,
                       const Tensor& out, uint32_t tag);

}  // namespace tessera
