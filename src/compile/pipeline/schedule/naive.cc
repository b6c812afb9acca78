#include "compile/pipeline/schedule/generators.h"

namespace tessera {

// One micro-batch at a time: the others begin when its backward is back at the first stage.
// Only one rank works at any time.
std::vector<StageAction> naive_actions(const PipelineShape& shape, int rank) {
  std::vector<StageAction> actions;
  for (int m = 0; m < shape.micro_batches; ++m) {
    actions.push_back({StagePass::kForward, rank, m});
    actions.push_back({StagePass::kBackward, rank, m});
  }
  return actions;
}

}  // namespace tessera
