// Which layers a pipeline rank holds, and how many micro-batches it holds at once.
#pragma once

#include <cstdint>

#include "cost/step/strategy.h"

namespace tessera {

// Layers of stage `stage` of `stages`, where nobody said otherwise: equal where they divide; else,
// where the embedding and the head counted as layers would make them divide, the ends have one
// less; else as equal as they can be.
int64_t even_stage_layers(int64_t layers, int64_t stages, int64_t stage);

struct RankLayers {
  int64_t dense = 0;
  int64_t experts = 0;
  int64_t largest_stage = 0;  // of one of its virtual stages
  int64_t again = 0;          // of all of them, computed again as a whole
  [[nodiscard]] int64_t total() const { return dense + experts; }
};
// The pipeline rank that holds a stage. Layers of a stage that are computed again are counted where
// the strategy says it by stage, and of a rank in any case.
int64_t rank_of_stage(const Strategy& strategy, int64_t stage);
RankLayers layers_of_stage(const ModelShape& model, const Strategy& strategy, int64_t stage);
RankLayers layers_of_rank(const ModelShape& model, const Strategy& strategy, int64_t rank);

// The most stage-micro-batches whose activations pipeline rank `rank` keeps at one time.
int64_t live_micro_batches(const Strategy& strategy, int64_t rank, int64_t micro_batches);

}  // namespace tessera
