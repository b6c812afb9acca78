// Reverse-mode differentiation: one rule per op, and one rule for all casts.
#pragma once

#include <map>

#include "graph/graph.h"

namespace tessera {

// Appends the backward nodes of the sum of all losses to the graph. Input gradients (pass I) and
// weight gradients (pass W) are separate nodes. Chunks of the loss are differentiated in their
// forward order, so that a later pass may run each chunk's backward right after its forward.
// Returns the gradient of every parameter (storage of a bucket); its placement is the dual of the
// storage's. Gradients of weights are stored in the accumulate type, or, where they are `narrow`,
// in the type of the activations.
std::map<ValueId, ValueId> differentiate(Graph& graph, bool narrow = false);

// Without a loss: appends the backward nodes of `value`, whose gradient is `gradient`, placed as
// the dual of it.
void differentiate_from(Graph& graph, ValueId value, ValueId gradient);

}  // namespace tessera
