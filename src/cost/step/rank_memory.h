// What a pipeline rank of one strategy holds, by closed form, and bounds on it.
#pragma once

#include <cstdint>

#include "cost/step/estimate.h"
#include "cost/step/rank_layout.h"

namespace tessera {

// As if the rank had these layers.
StageMemory memory_of_rank(const RankLayout& layout, int64_t rank, const RankLayers& layers);

// The total of it in two parts: what does not depend on the layers that are computed again, and
// what does.
int64_t fixed_bytes_of_rank(const RankLayout& layout, int64_t rank, const RankLayers& layers);
int64_t activation_bytes_of_rank(const RankLayout& layout, int64_t rank, const RankLayers& layers);

// What the fullest rank holds.
int64_t peak_bytes(const RankLayout& layout);

// At most the peak of every strategy with the same split, zero and shard: parameters, gradients and
// states, averaged over the ranks.
int64_t mean_states_bytes(const RankLayout& layout);

// At most the peak of every choice of stages and of layers to compute again: average states, one
// layer in work, and the inputs of layers for as many micro-batches as every rank keeps.
int64_t stages_bound_bytes(const RankLayout& layout);

}  // namespace tessera
