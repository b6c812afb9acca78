// Products of the blocks in 8 bits (train.dtype = "fp8"): every matrix of a product gets its amax,
// the cast that makes it one for all ranks that share a scale, and its codes; the product becomes
// one of codes. What scales cover, a recipe says (docs/numerics.md).
#pragma once

#include "graph/graph.h"
#include "graph/mesh.h"
#include "spec/run_spec.h"

namespace tessera {

// Runs right behind differentiate: backward products are rewritten like all others, and what a
// backward pass keeps is what it would keep without this pass.
void quantise_products(Graph& graph, const RunSpec& spec, const Mesh& mesh);

// The factors of a product. A gradient is dy of linear_dx and linear_dw.
enum class Factor : uint8_t { kActivation, kGradient, kWeight };
// How a factor is scaled that is summed along dimension `summed` of its matrix.
Scaling scaling_of(const Fp8Spec& fp8, Factor factor, int summed);

}  // namespace tessera
