// Attention over sequences that are split over cp, as a ring.
//
// Every rank keeps its queries; keys and values go round, from each rank to the next. At hop j a
// rank attends to the keys of the rank j places before it and merges the result with what it has,
// while the keys of hop j + 1 are on their way. Backward they go round again, and the gradients of
// keys and values follow one hop behind, summed in the accumulate type; after as many hops as there
// are ranks they are home.
#pragma once

#include "graph/graph.h"

namespace tessera {

// Replaces every attention, and gradient of one, whose keys are split over cp (S(0)) by its hops.
void expand_ring_attention(Graph& graph, const Mesh& mesh);

}  // namespace tessera
