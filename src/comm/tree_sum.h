// Sums over ranks along a binary tree: see base/tree_shares.h.
#pragma once

#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace tessera {

// targets[t][i] = the sum of sources[s][i] along the tree of which source s owns
// tree_share(leaves, sources, s), rounded to `dtype` after every addition: what a rank adds up by
// itself and what is added up here give the same bits. Targets as in reduce_in_order.
void sum_along_tree(DType dtype, std::span<const void* const> sources,
                    std::span<void* const> targets, int64_t count);

// The same of the first half of the sources. Throws Error, naming both halves, where that of the
// second half has other bits: then some targets have the sum and some have not.
void sum_twins(DType dtype, std::span<const void* const> sources, std::span<void* const> targets,
               int64_t count);

}  // namespace tessera
