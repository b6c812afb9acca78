// Scratch that the kernels of a rank need, on the device that runs them.
#include <algorithm>

#include "compile/lower/lowering.h"
#include "graph/kernel_sizes.h"
#include "graph/op_table.h"

namespace tessera {
namespace {

ScratchRule* scratch_rule(OpKind op, bool on_gpu) {
  const KernelNeeds& kernel = row_of(op).kernel;
  return on_gpu ? kernel.gpu_scratch : kernel.cpu_scratch;
}

}  // namespace

void Lowering::reserve_scratch(const Node& node) {
  ScratchRule* rule = scratch_rule(node.op, on_gpu());
  if (rule == nullptr) return;
  KernelSizes sizes;
  for (const ValueId v : node.inputs) sizes.inputs.push_back(&map_.slots.at(v).shape);
  for (const ValueId v : node.outputs) sizes.outputs.push_back(&map_.slots.at(v).shape);
  sizes.dtype = step_.spec.train.dtype;
  sizes.gradients = step_.spec.train.gradient_type();
  sizes.threads = program_.threads;
  if (row_of(node.op).kernel.numbers == KernelNumbers::kAttention) {
    sizes.keys_per_sequence = keys_per_sequence(node);
  }
  sizes.tokens_per_sequence = step_.spec.train.seq_len / step_.mesh.size(Axis::kCp);
  sizes.attrs = &node.attrs;
  scratch_bytes_ = std::max(scratch_bytes_, rule(sizes));
}

int64_t instruction_scratch(const Program& program, bool on_gpu) {
  int64_t most = 0;
  for (const Instruction& instruction : program.instructions) {
    ScratchRule* rule = scratch_rule(instruction.op, on_gpu);
    if (rule == nullptr || row_of(instruction.op).kernel.lowered == Lowered::kKernel) continue;
    KernelSizes sizes;
    for (const BufferId id : instruction.inputs) sizes.inputs.push_back(&program.buffer(id).shape);
    for (const BufferId id : instruction.outputs) {
      sizes.outputs.push_back(&program.buffer(id).shape);
    }
    if (!instruction.inputs.empty()) sizes.dtype = program.buffer(instruction.inputs[0]).dtype;
    sizes.threads = program.threads;
    most = std::max(most, rule(sizes));
  }
  return most;
}

}  // namespace tessera
