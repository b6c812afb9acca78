// What one pipeline rank would cost with other layers than the strategy gives it: for a search that
// chooses the layers of stages of models whose layers are alike.
#pragma once

#include "cost/step/rank_memory.h"
#include "cost/step/rank_times.h"

namespace tessera {

class RankTrial {
 public:
  // The strategy must outlive it.
  explicit RankTrial(const RankLayout& layout) : times_(layout) {}

  // One micro-batch through the rank; `again` of its layers are computed again.
  [[nodiscard]] double seconds(int64_t rank, int64_t layers, int64_t again) const {
    return times_.rank_seconds(rank, layers_of(layers, again));
  }
  [[nodiscard]] int64_t bytes(int64_t rank, int64_t layers, int64_t again) const {
    return fixed_bytes(rank, layers) + activation_bytes(rank, layers, again);
  }
  // The two parts of it.
  [[nodiscard]] int64_t fixed_bytes(int64_t rank, int64_t layers) const {
    return fixed_bytes_of_rank(times_.layout(), rank, layers_of(layers, 0));
  }
  [[nodiscard]] int64_t activation_bytes(int64_t rank, int64_t layers, int64_t again) const {
    return activation_bytes_of_rank(times_.layout(), rank, layers_of(layers, again));
  }
  // Whether it has the embedding or the head: all other ranks take the same time for the same
  // layers, and the first of those keeps the most micro-batches.
  [[nodiscard]] bool is_end(int64_t rank) const { return times_.layout().is_end(rank); }

 private:
  [[nodiscard]] RankLayers layers_of(int64_t layers, int64_t again) const {
    const bool experts = times_.layout().has_experts();
    return {experts ? 0 : layers, experts ? layers : 0, again};
  }

  RankTimes times_;
};

}  // namespace tessera
