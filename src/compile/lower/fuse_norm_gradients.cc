#include "compile/lower/fuse_norm_gradients.h"

#include <algorithm>

#include "compile/lower/fusion.h"

namespace tessera {
namespace {

class NormFusion : public Fusion {
 public:
  using Fusion::Fusion;

  void run() {
    for (size_t i = 0; i < list_.size(); ++i) {
      if (list_[i].op == OpKind::kLayerNormDw) fuse_bias(i);
    }
    for (size_t i = 0; i < list_.size(); ++i) {
      if (list_[i].op == OpKind::kLayerNormDx) {
        fuse_weights(i, OpKind::kLayerNormDwBias, OpKind::kLayerNormGrad);
      }
      if (list_[i].op == OpKind::kRmsNormDx) {
        fuse_weights(i, OpKind::kRmsNormDw, OpKind::kRmsNormGrad);
      }
    }
    drop_gone();
  }

 private:
  // Whether the instruction at `later` is of this kind and reads `inputs`, and may be done at the
  // place of the one at `first`.
  [[nodiscard]] bool can_move_up(size_t first, size_t later, OpKind op,
                                 const std::vector<BufferId>& inputs) const {
    const Instruction& moved = list_[later];
    if (gone_[later] || moved.op != op || moved.inputs != inputs ||
        moved.micro_batch != list_[first].micro_batch ||
        places_[later].item != places_[first].item) {
      return false;
    }
    for (const BufferId result : moved.outputs) {
      for (const BufferId source : moved.inputs) {
        if (touched_between(first, later, result, source)) return false;
      }
    }
    return true;
  }

  // The gradient of the bias sums the same dy.
  void fuse_bias(size_t i) {
    Instruction& weight = list_[i];
    for (size_t j = i + 1; j < std::min(list_.size(), i + kWindow); ++j) {
      if (!can_move_up(i, j, OpKind::kBiasDw, {weight.inputs[0]}) ||
          list_[j].accumulate != weight.accumulate) {
        continue;
      }
      weight.op = OpKind::kLayerNormDwBias;
      weight.outputs.push_back(list_[j].outputs[0]);
      gone_[j] = true;
      return;
    }
  }

  // dx of dy, x, weight, statistics; what `weights` reads is the same without the weight.
  void fuse_weights(size_t i, OpKind weights, OpKind fused) {
    Instruction& dx = list_[i];
    const std::vector<BufferId> inputs = {dx.inputs[0], dx.inputs[1], dx.inputs[3]};
    for (size_t j = i + 1; j < std::min(list_.size(), i + kWindow); ++j) {
      if (!can_move_up(i, j, weights, inputs)) continue;
      dx.op = fused;
      dx.outputs.insert(dx.outputs.end(), list_[j].outputs.begin(), list_[j].outputs.end());
      dx.accumulate = list_[j].accumulate;  // of the weights' alone: dx has its own input for that
      gone_[j] = true;
      return;
    }
  }
};

}  // namespace

void fuse_norm_gradients(Program& program, const std::vector<Region>& region_of,
                         std::vector<InstructionPlace>& places) {
  NormFusion(program, region_of, places).run();
}

}  // namespace tessera
