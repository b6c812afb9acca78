#include "compile/fuse_products.h"

#include <algorithm>

namespace tessera {
namespace {

class Fusion {
 public:
  Fusion(Program& program, const std::vector<Region>& region_of,
         std::vector<InstructionPlace>& places)
      : program_(program),
        list_(program.instructions),
        region_of_(region_of),
        places_(places),
        gone_(list_.size(), false) {}

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

  // Whether something between them reads or writes `result`, or writes `source`.
  [[nodiscard]] bool touched_between(size_t first, size_t last, BufferId result,
                                     BufferId source) const {
    for (size_t i = first + 1; i < last; ++i) {
      if (gone_[i]) continue;
      for (const BufferId in : list_[i].inputs) {
        if (overlap(in, result)) return true;
      }
      for (const BufferId out : list_[i].outputs) {
        if (overlap(out, result) || overlap(out, source)) return true;
      }
    }
    return false;
  }

  [[nodiscard]] bool overlap(BufferId a, BufferId b) const {
    const Region& left = region_of_[static_cast<size_t>(a)];
    const Region& right = region_of_[static_cast<size_t>(b)];
    if (left.storage != right.storage || left.instance != right.instance) return false;
    const Buffer& x = program_.buffer(a);
    const Buffer& y = program_.buffer(b);
    return x.offset < y.offset + y.bytes() && y.offset < x.offset + x.bytes();
  }

  void drop_gone() {
    size_t kept = 0;
    for (size_t i = 0; i < list_.size(); ++i) {
      if (gone_[i]) continue;
      if (kept != i) {
        list_[kept] = std::move(list_[i]);
        places_[kept] = places_[i];
      }
      ++kept;
    }
    list_.resize(kept);
    places_.resize(kept);
  }

  static constexpr size_t kWindow = 16;

  Program& program_;
  std::vector<Instruction>& list_;
  const std::vector<Region>& region_of_;
  std::vector<InstructionPlace>& places_;
  std::vector<bool> gone_;
};

}  // namespace

void fuse_products(Program& program, const std::vector<Region>& region_of,
                   std::vector<InstructionPlace>& places) {
  Fusion(program, region_of, places).run();
}

}  // namespace tessera
