// The loss in chunks of tokens: how many there are, and a transformer that has only some of them.
#pragma once

#include <cstdint>

#include "compile/model/transformer.h"

namespace tessera {

// Chunks of one micro-batch on one rank. `spec` must have gone through resolve().
int64_t loss_chunks(const RunSpec& spec);

// build_transformer() for training with at most so many chunks of the loss, the last one of the run
// among them. The other tokens have no loss, and their gradient is zero: the memory of a step is
// the same from a few chunks on, and templates (compile/scale) are made of that many. 0: all.
ForwardGraph build_transformer_of_chunks(const RunSpec& spec, const Mesh& mesh,
                                         const ParameterLayout& layout, int64_t most_chunks);

}  // namespace tessera
