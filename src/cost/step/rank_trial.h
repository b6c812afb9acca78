// What one pipeline rank would cost with other layers than the strategy gives it: for a search that
// chooses the layers of stages. Of models whose layers are alike.
#pragma once

#include "cost/step/pricing.h"

namespace tessera {

class RankTrial {
 public:
  // The strategy must outlive it.
  explicit RankTrial(const Pricing& pricing, bool experts) : pricing_(pricing), experts_(experts) {}

  // One micro-batch through the rank; `again` of its layers are computed again.
  [[nodiscard]] double seconds(int64_t rank, int64_t layers, int64_t again) const {
    return pricing_.rank_seconds(rank, layers_of(layers, again));
  }
  [[nodiscard]] int64_t bytes(int64_t rank, int64_t layers, int64_t again) const {
    return pricing_.memory(rank, layers_of(layers, again)).total();
  }
  // Whether it has the embedding or the head: all other ranks take the same time for the same
  // layers, and of those the first keeps the most micro-batches.
  [[nodiscard]] bool is_end(int64_t rank) const { return pricing_.is_end(rank); }

 private:
  [[nodiscard]] RankLayers layers_of(int64_t layers, int64_t again) const {
    return {experts_ ? 0 : layers, experts_ ? layers : 0, layers, again};
  }

  Pricing pricing_;
  bool experts_;
};

}  // namespace tessera
