// What the scratch of a kernel depends on: its operands as this rank has them.
#pragma once

#include <vector>

#include "graph/op.h"

namespace tessera {

struct KernelSizes {
  std::vector<const Shape*> inputs, outputs;
  DType dtype = DType::kF32;      // of activations
  DType gradients = DType::kF32;  // of weight gradients
  int threads = 1;
  int64_t keys_per_sequence = 0;    // attention: that a sequence has on this rank
  int64_t tokens_per_sequence = 0;  // of this rank
  const Attrs* attrs = nullptr;     // of the node; null where only the instruction is left

  [[nodiscard]] const Shape& in(size_t i) const { return *inputs[i]; }
  [[nodiscard]] const Shape& out(size_t i) const { return *outputs[i]; }
};

}  // namespace tessera
