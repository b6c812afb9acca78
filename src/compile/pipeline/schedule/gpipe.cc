#include "compile/pipeline/schedule/generators.h"

namespace tessera {

// All forwards, then all backwards: every micro-batch is alive at once. Backwards run in the order
// of the forwards, not in reverse, so that gradients add up as in the other schedules.
std::vector<StageAction> gpipe_actions(const PipelineShape& shape, int rank) {
  std::vector<StageAction> actions;
  for (const StagePass pass : {StagePass::kForward, StagePass::kBackward}) {
    for (int m = 0; m < shape.micro_batches; ++m) actions.push_back({pass, rank, m});
  }
  return actions;
}

}  // namespace tessera
