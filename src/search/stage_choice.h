// The layers of every pipeline rank, and how many of them it computes again, chosen together. The
// first ranks of a pipeline keep the most micro-batches and the ends have the embedding and the
// head, so equal stages leave memory on some ranks and time on others.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cost/step/cost_model.h"

namespace tessera {

struct StageChoice {
  std::vector<int64_t> layers, again;  // by pipeline rank
};

// Ranks with the layers they have, each computing again the fewest that fit in `limit` bytes; none
// where a rank does not fit in any way.
std::optional<StageChoice> fewest_again(CostModel& model, const Strategy& strategy, int64_t limit);

// The layers for which the busiest rank is as short as it can be: no choice of layers and of layers
// to compute again that fits is shorter. Every stage has a layer.
std::optional<StageChoice> shortest_stages(CostModel& model, const Strategy& strategy,
                                           int64_t limit);

// At most what the busiest rank takes for a micro-batch, whatever the layers of ranks are and
// whatever they compute again: what shortest_stages would find with memory without end.
double least_busiest_s(CostModel& model, const Strategy& strategy);

// The layers for which the fullest rank needs as little memory as it can.
std::optional<StageChoice> smallest_stages(CostModel& model, const Strategy& strategy);

// The strategy with this choice, in its simplest form: empty lists where they would say nothing.
Strategy with_stages(const Workload& workload, const Strategy& strategy, const StageChoice& choice);

// Whether the layers of stages can be chosen: there are several, each can have a layer, and the
// layers are alike.
bool can_choose_stages(const Workload& workload, const Strategy& strategy);

}  // namespace tessera
