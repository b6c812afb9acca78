// A ring's step: every rank of a group gives a tensor to the next rank and gets one from the rank
// before it.
#pragma once

#include <array>

#include "comm/communicator.h"
#include "tensor/tensor.h"

namespace tessera {

// What a rank sends and what it receives: to be under way together, or a ring would stop.
std::array<CollectiveCall, 2> shift_calls(const Communicator& group, const Tensor& in,
                                          const Tensor& out, uint32_t tag);

// Blocks until `out` is there and `in` may be reused. All ranks of the group call it at once.
void shift(Communicator& group, const Tensor& in, const Tensor& out, uint32_t tag);

}  // namespace tessera
