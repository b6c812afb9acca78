#include <algorithm>

#include "compile/pipeline/schedule/generators.h"

namespace tessera {

// A rank runs ahead by as many forwards as there are ranks behind it, then one forward and one
// backward in turn: at most ranks - rank micro-batches are alive.
std::vector<StageAction> one_f_one_b_actions(const PipelineShape& shape, int rank) {
  const int micro_batches = shape.micro_batches;
  const int warmup = std::min(shape.ranks - 1 - rank, micro_batches);
  std::vector<StageAction> actions;
  for (int m = 0; m < warmup; ++m) actions.push_back({StagePass::kForward, rank, m});
  for (int m = warmup; m < micro_batches; ++m) {
    actions.push_back({StagePass::kForward, rank, m});
    actions.push_back({StagePass::kBackward, rank, m - warmup});
  }
  for (int m = micro_batches - warmup; m < micro_batches; ++m) {
    actions.push_back({StagePass::kBackward, rank, m});
  }
  return actions;
}

}  // namespace tessera
