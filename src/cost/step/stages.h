// Which layers a pipeline rank holds, and how many micro-batches it holds at once.
#pragma once

#include <cstdint>

#include "cost/step/strategy.h"

namespace tessera {

// How layers are cut into stages where nobody said otherwise: equal where they divide; else, where
// the embedding and the head counted as layers would make them divide, the ends have one less; else
// as equal as they can be.
class EvenStages {
 public:
  EvenStages(int64_t layers, int64_t stages)
      : stages_(stages), each_(layers / stages), left_(layers % stages) {}

  [[nodiscard]] int64_t layers_of(int64_t stage) const {
    if (left_ == 0) return each_;
    const bool last = stage == stages_ - 1;
    if (left_ == stages_ - 2) return each_ + 1 - (stage == 0 ? 1 : 0) - (last ? 1 : 0);
    if (left_ == stages_ - 1) return each_ + 1 - (last ? 1 : 0);
    return each_ + left_before(stage + 1) - left_before(stage);
  }
  // Whether all stages between the first and the last have the same layers.
  [[nodiscard]] bool middle_is_uniform() const { return left_ == 0 || stages_ - left_ <= 2; }

 private:
  // How many stages before this one have a layer more than `each_`, as evenly spread as they can.
  [[nodiscard]] int64_t left_before(int64_t stage) const {
    return (2 * stage * left_ + stages_) / (2 * stages_);
  }

  int64_t stages_;
  int64_t each_;
  int64_t left_;
};

struct RankLayers {
  int64_t dense = 0;
  int64_t experts = 0;
  int64_t again = 0;  // of all of them, computed again as a whole
  [[nodiscard]] int64_t total() const { return dense + experts; }
  friend bool operator==(const RankLayers&, const RankLayers&) = default;
};

// The layers of every stage and rank of one strategy, which must outlive it, as must the model.
class StageLayers {
 public:
  StageLayers(const ModelShape& model, const Strategy& strategy)
      : m_(model), s_(strategy), even_(model.layers, strategy.pp * strategy.virtual_stages) {}

  // Layers computed again are counted where the strategy says it by stage.
  [[nodiscard]] RankLayers of_stage(int64_t stage) const;
  [[nodiscard]] RankLayers of_rank(int64_t rank) const;
  // Whether all pipeline ranks between the first and the last have the same layers.
  [[nodiscard]] bool middle_is_uniform() const {
    return s_.stage_layers.empty() && s_.stage_recompute.empty() && m_.experts == 0 &&
           even_.middle_is_uniform();
  }

 private:
  [[nodiscard]] int64_t layers_of(int64_t stage) const {
    return s_.stage_layers.empty() ? even_.layers_of(stage)
                                   : s_.stage_layers[static_cast<size_t>(stage)];
  }

  const ModelShape& m_;
  const Strategy& s_;
  EvenStages even_;
};
// The pipeline rank that holds a stage, and the stages of a rank, `chunk` of virtual_stages.
int64_t rank_of_stage(const Strategy& strategy, int64_t stage);
int64_t stage_of_rank(const Strategy& strategy, int64_t rank, int64_t chunk);

// Whether the schedule moves weight gradients to where a rank would wait.
bool fills_with_weight_gradients(const Strategy& strategy);

// The most stage-micro-batches whose activations pipeline rank `rank` keeps at one time.
int64_t live_micro_batches(const Strategy& strategy, int64_t rank, int64_t micro_batches);

}  // namespace tessera
