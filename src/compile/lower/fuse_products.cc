#include "compile/lower/fuse_products.h"

#include <algorithm>

#include "compile/lower/fusion.h"

namespace tessera {
namespace {

class ProductFusion : public Fusion {
 public:
  using Fusion::Fusion;

  void run() {
    for (size_t i = 0; i + 1 < list_.size(); ++i) {
      if (list_[i].op == OpKind::kLinear) fuse_bias(i);
      if (list_[i].op == OpKind::kLinearDx) fuse_gelu_grad(i);
      if (list_[i].op == OpKind::kLinearDw) fuse_bias_gradient(i);
    }
    drop_gone();
  }

 private:
  // The instruction behind i, if it reads `value` and is of this kind.
  [[nodiscard]] bool followed_by(size_t i, OpKind op, BufferId value) const {
    return i < list_.size() && list_[i].op == op && list_[i].inputs[0] == value;
  }

  // In place, so that nobody else can want the product alone.
  void fuse_bias(size_t i) {
    Instruction& product = list_[i];
    const BufferId z = product.outputs[0];
    if (!followed_by(i + 1, OpKind::kAddBias, z) || list_[i + 1].outputs[0] != z) return;
    product.op = OpKind::kLinearBias;
    product.inputs.push_back(list_[i + 1].inputs[1]);
    product.name = list_[i + 1].name;
    gone_[i + 1] = true;
    if (!followed_by(i + 2, OpKind::kGelu, z)) return;
    product.outputs.push_back(list_[i + 2].outputs[0]);
    product.name = list_[i + 2].name;
    gone_[i + 2] = true;
  }

  // Weight gradients and what they need again may stand between the two.
  void fuse_gelu_grad(size_t i) {
    Instruction& product = list_[i];
    const BufferId dh = product.outputs[0];
    if (product.accumulate) return;
    for (size_t j = i + 1; j < std::min(list_.size(), i + kWindow); ++j) {
      const Instruction& gelu = list_[j];
      if (!followed_by(j, OpKind::kGeluGrad, dh)) continue;
      if (gelu.outputs[0] != dh || gelu.inputs[1] == dh ||
          touched_between(i, j, dh, gelu.inputs[1])) {
        return;
      }
      product.op = OpKind::kLinearDxGelu;
      product.inputs.push_back(gelu.inputs[1]);
      product.name = gelu.name;
      gone_[j] = true;
      return;
    }
  }

  // The bias's gradient is a sum over the same rows of the same values, a little before or after.
  void fuse_bias_gradient(size_t i) {
    Instruction& product = list_[i];
    for (size_t j = i > kWindow ? i - kWindow : 0; j < std::min(list_.size(), i + kWindow); ++j) {
      const Instruction& bias = list_[j];
      if (gone_[j] || bias.op != OpKind::kBiasDw || bias.inputs[0] != product.inputs[0] ||
          bias.micro_batch != product.micro_batch || bias.accumulate != product.accumulate ||
          touched_between(std::min(i, j), std::max(i, j), bias.outputs[0], bias.inputs[0])) {
        continue;
      }
      product.op = OpKind::kLinearDwBias;
      product.outputs.push_back(bias.outputs[0]);
      gone_[j] = true;
      return;
    }
  }
};

}  // namespace

void fuse_products(Program& program, const std::vector<Region>& region_of,
                   std::vector<InstructionPlace>& places) {
  ProductFusion(program, region_of, places).run();
}

}  // namespace tessera
