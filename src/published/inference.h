// What a published run does not say but its numbers do.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/step/strategy.h"

namespace tessera {

// How many replicas keep the states (weights, gradients, master copy, moments) of the last pipeline
// rank in about `bytes`: of strategy.dp, which must be possible, and its doubles.
int64_t replicas_of_states(const Workload& workload, const Strategy& strategy, double bytes);

// Whether the reported arithmetic of one token is that of the model with one more layer and head,
// which predict the token after the next.
bool has_later_tokens(const Workload& workload, double flops_per_token);

// Layers of every stage where the source is silent and they do not divide: equal ones, or as many
// on every stage as the first has and what is left on the last, beside the head; the faster.
std::vector<int64_t> likely_stage_layers(const Workload& workload, const Strategy& strategy);

}  // namespace tessera
