#include "compile/pipeline/schedule/zero_bubble.h"

#include <algorithm>

namespace tessera {

std::vector<StageAction> split_backward_actions(int stage, int micro_batches, int warmup, int lag) {
  std::vector<StageAction> actions;
  int forwards = 0;
  int weight_grads = 0;
  const auto forward = [&] { actions.push_back({StagePass::kForward, stage, forwards++}); };
  const auto weight_grad = [&] {
    actions.push_back({StagePass::kWeightGrad, stage, weight_grads++});
  };
  while (forwards < std::min(warmup, micro_batches)) forward();
  for (int m = 0; m < micro_batches; ++m) {
    if (forwards < micro_batches) forward();
    actions.push_back({StagePass::kInputGrad, stage, m});
    if (m >= lag) weight_grad();
  }
  while (weight_grads < micro_batches) weight_grad();
  return actions;
}

}  // namespace tessera
