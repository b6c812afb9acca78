// Scratch that the kernels of a rank need, on the device that runs them.
#include <algorithm>

#include "base/cuda_workspace.h"
#include "base/workspace.h"
#include "compile/lower/lowering.h"

namespace tessera {

int64_t Lowering::cpu_scratch(const Node& node) const {
  const DType dtype = step_.spec.train.dtype;
  const int threads = program_.threads;
  const auto shape = [&](ValueId value) { return map_.slots.at(value).shape; };
  switch (node.op) {
    case OpKind::kLinear: {
      const Shape x = shape(node.inputs[0]);
      return workspace::linear(dtype, x[0], shape(node.inputs[1])[0], x[1], threads);
    }
    case OpKind::kLinearDx: {
      const Shape w = shape(node.inputs[1]);
      return workspace::linear(dtype, shape(node.inputs[0])[0], w[0], w[1], threads);
    }
    case OpKind::kLinearDw: {
      const Shape dw = shape(node.outputs[0]);
      return workspace::linear(dtype, shape(node.inputs[0])[0], dw[0], dw[1], threads);
    }
    case OpKind::kRmsNormDw: {
      const Shape x = shape(node.inputs[1]);
      return workspace::rms_norm_dw(dtype, x[0], x[1], threads);
    }
    case OpKind::kEmbeddingDw:
    case OpKind::kPositionsDw:
      return workspace::table_grad(step_.spec.train.gradient_type(), shape(node.outputs[0])[0],
                                   threads);
    case OpKind::kAttention:
    case OpKind::kAttentionPart:
      return workspace::attention(dtype, keys_per_sequence(node), node.attrs.head_dim, threads);
    case OpKind::kAttentionGrad:
    case OpKind::kAttentionGradPart:
      return workspace::attention_grad(dtype, keys_per_sequence(node), node.attrs.head_dim,
                                       threads);
    case OpKind::kCrossEntropyLoss:
      return workspace::cross_entropy_loss(threads);
    case OpKind::kDispatch:
      return workspace::dispatch_rows(node.attrs.experts.experts);
    case OpKind::kExpertLinear:
    case OpKind::kExpertLinearDx: {
      const Shape w = shape(node.inputs[1]);
      return workspace::linear(dtype, node.attrs.experts.capacity, w[1], w[2], threads);
    }
    case OpKind::kExpertLinearDw: {
      const Shape dw = shape(node.outputs[0]);
      return workspace::linear(dtype, node.attrs.experts.capacity, dw[1], dw[2], threads);
    }
    default:
      return 0;
  }
}

int64_t Lowering::gpu_scratch(const Node& node) const {
  namespace gpu = workspace::cuda;
  const DType dtype = step_.spec.train.dtype;
  const auto shape = [&](ValueId value) { return map_.slots.at(value).shape; };
  switch (node.op) {
    case OpKind::kLinear:
    case OpKind::kLinearDx:
    case OpKind::kLinearDw:
      return gpu::kMatmulBytes;
    case OpKind::kAttention:
      return gpu::attention(dtype);
    case OpKind::kAttentionGrad: {
      const Shape q = shape(node.inputs[0]), kv = shape(node.inputs[1]);
      const int64_t dim = node.attrs.head_dim;
      return gpu::attention_grad(dtype, q[0], q[1] / dim, kv[1] / 2 / dim, dim);
    }
    case OpKind::kAttentionGradPart: {
      const Shape q = shape(node.inputs[0]);
      return gpu::attention_dots(dtype, q[0], q[1] / node.attrs.head_dim);
    }
    case OpKind::kRmsNormDw:
    case OpKind::kLayerNormDw:
    case OpKind::kBiasDw: {
      const Shape dy = shape(node.inputs[0]);
      return gpu::column_sums(dtype, dy[0], dy[1]);
    }
    case OpKind::kHeadNormDw: {
      const Shape rstd = shape(node.inputs[2]), dw = shape(node.outputs[0]);
      return gpu::column_sums(dtype, numel(rstd), dw[0]);
    }
    case OpKind::kRouterStats: {
      const Shape stats = shape(node.outputs[0]);
      return gpu::router_stats(stats[0], args_of(node).experts.tokens_per_sequence,
                               (stats[1] - 1) / 2);
    }
    case OpKind::kDispatch: {
      const Shape ids = shape(node.inputs[1]);
      return gpu::dispatch_rows(ids[0] * ids[1], node.attrs.experts.experts);
    }
    case OpKind::kCombineGrad: {
      const Shape rows = shape(node.inputs[1]);
      return gpu::combine_rows_grad(numel(rows) / rows.back());
    }
    case OpKind::kBalanceLoss:
      return gpu::balance_loss(shape(node.inputs[0])[0]);
    case OpKind::kEmbeddingDw:
      return gpu::embedding_dw(shape(node.inputs[0])[0]);
    default:
      return 0;
  }
}

void Lowering::reserve_scratch(const Node& node) {
  scratch_bytes_ = std::max(scratch_bytes_, on_gpu() ? gpu_scratch(node) : cpu_scratch(node));
}

int64_t update_scratch(const Program& program, bool on_gpu) {
  int64_t most = 0;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.op == OpKind::kAdamW && on_gpu) {
      most = std::max(most, workspace::cuda::kAdamFactorsBytes);
    }
    if (instruction.op != OpKind::kSumSquares) continue;
    int64_t elements = 0;
    for (const BufferId id : instruction.inputs) elements += numel(program.buffer(id).shape);
    const auto tensors = static_cast<int64_t>(instruction.inputs.size());
    most = std::max(most, on_gpu ? workspace::cuda::sum_squares(elements, tensors)
                                 : workspace::sum_squares(program.threads));
  }
  return most;
}

// Which of them are one instruction is known when they are fused: on a GPU alone.
void Lowering::reserve_for_norm_gradients() {
  namespace gpu = workspace::cuda;
  const DType dtype = step_.spec.train.dtype;
  for (const Instruction& instruction : program_.instructions) {
    if (instruction.inputs.empty()) continue;
    const Shape& dy = program_.buffer(instruction.inputs[0]).shape;
    int64_t bytes = 0;
    if (instruction.op == OpKind::kLayerNormDwBias) {
      bytes = gpu::column_sums(dtype, dy[0], dy[1], 2);
    } else if (instruction.op == OpKind::kLayerNormGrad) {
      bytes = gpu::norm_grad(dtype, dy[0], dy[1], 2);
    } else if (instruction.op == OpKind::kRmsNormGrad) {
      bytes = gpu::norm_grad(dtype, dy[0], dy[1], 1);
    }
    scratch_bytes_ = std::max(scratch_bytes_, bytes);
  }
}

}  // namespace tessera
