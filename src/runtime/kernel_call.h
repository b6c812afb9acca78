// One instruction of the compute stream as the rows of the dispatcher see it, and what a row is.
#pragma once

#include "compile/program/program.h"
#include "kernels/kernels.h"

namespace tessera {

struct KernelCall {
  // Binds to the Tensor& that kernels take for what they write.
  struct Output {
    Tensor tensor;
    operator Tensor&() { return tensor; }
  };

  kernels::Context& context;
  const Instruction& instruction;
  std::span<const Tensor> tensors;  // one per buffer of the program

  [[nodiscard]] const KernelArgs& args() const { return instruction.args; }
  [[nodiscard]] bool adds() const { return instruction.accumulate; }
  [[nodiscard]] Tensor at(BufferId id) const { return tensors[static_cast<size_t>(id)]; }
  [[nodiscard]] Tensor in(size_t i) const { return at(instruction.inputs[i]); }
  [[nodiscard]] Output out(size_t i) const { return {at(instruction.outputs[i])}; }
  // Without data where the instruction has fewer.
  [[nodiscard]] Tensor in_if_any(size_t i) const {
    return i < instruction.inputs.size() ? in(i) : Tensor();
  }
  [[nodiscard]] Output out_if_any(size_t i) const {
    return i < instruction.outputs.size() ? out(i) : Output{};
  }
};

// Allocates nothing.
struct KernelRow {
  OpKind kind;
  void (*run)(const KernelCall& call);
};

}  // namespace tessera
