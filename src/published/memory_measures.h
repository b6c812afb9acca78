// Whether a strategy fits into a device, as the authors of a run would have made it fit.
//
// Who leaves recomputation open has said nothing of memory, and whole layers computed again are the
// last measure that engines offer, not the first. Before them come sums of gradients in 16 bits,
// which cost no time; then norms and activation functions that are computed again, at the speed of
// the memory, and with latent attention the products that widen queries, keys and values, which are
// narrow enough to count as nothing.
#pragma once

#include <optional>

#include "cost/step/cost_model.h"

namespace tessera {

class MemoryMeasures {
 public:
  // `taken`: whether the measures are; otherwise only what the workload and a strategy say counts.
  MemoryMeasures(Workload workload, bool taken);

  [[nodiscard]] bool taken() const { return taken_; }

  // Sequences of a step from here on; must be called before fits().
  void price_batch(int64_t global_batch);

  // A strategy with `elementwise_again` keeps less than the closed form says, by what is computed
  // again.
  [[nodiscard]] bool fits(const Strategy& strategy);

 private:
  Workload workload_;
  bool taken_;
  std::optional<CostModel> model_;
};

// The part of what a layer keeps for backward that is not kept with `elementwise_again`: outputs
// of norms and of activation functions, and with latent attention the widened queries, keys and
// values.
double cheap_share(const Workload& workload, const Strategy& strategy);

}  // namespace tessera
