#include "runtime/dispatch.h"

#include <array>

#include "runtime/dispatch_experts.h"

namespace tessera {
namespace {

void sum_squares(kernels::Context& context, const Instruction& instruction,
                 std::span<const Tensor> tensors) {
  const auto at = [&](BufferId id) { return tensors[static_cast<size_t>(id)]; };
  std::array<kernels::SquaredTensor, kMostGroupedBuckets> squared;
  const std::vector<BucketArgs>& buckets = instruction.args.buckets;
  for (size_t b = 0; b < buckets.size(); ++b) {
    squared.at(b) = {at(instruction.inputs[b]), kMetricsHead + buckets[b].index};
  }
  Tensor metrics = at(instruction.outputs[0]);
  kernels::sum_squares(context, std::span(squared).first(buckets.size()), metrics);
}

void update(kernels::Context& context, const Instruction& instruction,
            std::span<const Tensor> tensors) {
  const auto at = [&](BufferId id) { return tensors[static_cast<size_t>(id)]; };
  std::array<kernels::UpdatedTensors, kMostGroupedBuckets> updated;
  const KernelArgs& args = instruction.args;
  const size_t buckets = args.buckets.size();
  const size_t outputs = instruction.outputs.size() / buckets;  // of each
  for (size_t b = 0; b < buckets; ++b) {
    const BufferId* output = &instruction.outputs[b * outputs];
    const BufferId master = has_master(instruction) ? output[3] : output[0];
    updated.at(b) = {at(master),    at(output[1]),        at(output[2]), at(instruction.inputs[b]),
                     at(output[0]), args.buckets[b].decay};
  }
  kernels::adamw(context, std::span(updated).first(buckets), at(instruction.inputs.back()),
                 {args.update, args.updates});
}

SequenceRows rows_of(const KernelArgs& args) { return {args.seq_len, args.parts, args.q_part}; }

DropoutMask dropout_mask(const KernelArgs& args) {
  return {args.dropout, args.unit, args.site, args.first_sample};
}

kernels::AttentionShape attention_shape(const KernelArgs& args) {
  kernels::AttentionShape shape;
  shape.seq_len = args.seq_len;
  shape.heads = args.heads;
  shape.kv_heads = args.kv_heads;
  shape.head_dim = args.head_dim;
  shape.heads_per_kv = args.heads_per_kv;
  shape.first_head = args.first_head;
  shape.first_kv_head = args.first_kv_head;
  shape.parts = args.parts;
  shape.q_part = args.q_part;
  shape.kv_part = args.kv_part;
  shape.window = args.window;
  shape.dropout = dropout_mask(args);
  return shape;
}

}  // namespace

void run_kernel(kernels::Context& context, const Instruction& instruction,
                std::span<const Tensor> tensors) {
  const auto in = [&](size_t i) { return tensors[static_cast<size_t>(instruction.inputs[i])]; };
  const auto out = [&](size_t i) { return tensors[static_cast<size_t>(instruction.outputs[i])]; };
  const KernelArgs& args = instruction.args;
  const bool add = instruction.accumulate;
  Tensor y = out(0);
  switch (instruction.op) {
    case OpKind::kEmbedding:
      return kernels::embedding(context, in(0), in(1), y, args.first_row);
    case OpKind::kEmbeddingDw:
      return kernels::embedding_dw(context, in(0), in(1), y, args.first_row, add);
    case OpKind::kRmsNorm: {
      Tensor rstd = out(1);
      return kernels::rms_norm(context, in(0), in(1), y, rstd, args.eps);
    }
    case OpKind::kAddRmsNorm: {
      Tensor normed = out(1);
      Tensor rstd = out(2);
      return kernels::add_rms_norm(context, in(0), in(1), in(2), y, normed, rstd, args.eps);
    }
    case OpKind::kRmsNormDx: {
      const Tensor residual = instruction.inputs.size() > 4 ? in(4) : Tensor();
      return kernels::rms_norm_dx(context, in(0), in(1), in(2), in(3), residual, y);
    }
    case OpKind::kRmsNormDw:
      return kernels::rms_norm_dw(context, in(0), in(1), in(2), y, add);
    case OpKind::kRmsNormGrad: {
      const Tensor residual = instruction.inputs.size() > 4 ? in(4) : Tensor();
      Tensor dw = out(1);
      return kernels::rms_norm_grad(context, in(0), in(1), in(2), in(3), residual, y, dw, add);
    }
    case OpKind::kLinear:
      return kernels::linear(context, in(0), in(1), y);
    case OpKind::kLinearDx:
      return kernels::linear_dx(context, in(0), in(1), y, add);
    case OpKind::kLinearDw:
      return kernels::linear_dw(context, in(0), in(1), y, add);
    case OpKind::kLinearBias: {
      Tensor h = instruction.outputs.size() > 1 ? out(1) : Tensor();
      return kernels::linear_bias(context, in(0), in(1), in(2), y, h);
    }
    case OpKind::kLinearDxGelu:
      return kernels::linear_dx_gelu(context, in(0), in(1), in(2), y);
    case OpKind::kLinearDwBias: {
      Tensor db = out(1);
      return kernels::linear_dw_bias(context, in(0), in(1), y, db, add);
    }
    case OpKind::kRope:
      return kernels::rope(context, in(0), in(1), in(2), y, args.heads, args.inverse);
    case OpKind::kAttention: {
      Tensor lse = out(1);
      return kernels::attention(context, in(0), in(1), y, lse, attention_shape(args));
    }
    case OpKind::kAttentionGrad: {
      Tensor dkv = out(1);
      return kernels::attention_grad(context, in(0), in(1), in(2), in(3), in(4), y, dkv,
                                     attention_shape(args));
    }
    case OpKind::kAttentionPart: {
      const bool merges = instruction.inputs.size() > 2;
      Tensor lse = out(1);
      return kernels::attention_part(context, in(0), in(1), merges ? in(2) : Tensor(),
                                     merges ? in(3) : Tensor(), y, lse, attention_shape(args));
    }
    case OpKind::kAttentionGradPart: {
      const Tensor before = instruction.inputs.size() > 5 ? in(5) : Tensor();
      Tensor dkv = out(1);
      return kernels::attention_grad_part(context, in(0), in(1), in(2), in(3), in(4), before, y,
                                          dkv, attention_shape(args));
    }
    case OpKind::kSplitColumns:
      return kernels::split_columns(context, in(0), y, args.column_groups);
    case OpKind::kJoinColumns:
      return kernels::join_columns(context, in(0), y, args.column_groups);
    case OpKind::kSwiGlu:
      return kernels::swiglu(context, in(0), y);
    case OpKind::kSwiGluGrad:
      return kernels::swiglu_grad(context, in(0), in(1), y);
    case OpKind::kAdd:
      return kernels::add(context, in(0), in(1), y);
    case OpKind::kAddBias:
      return kernels::add_bias(context, in(0), in(1), y);
    case OpKind::kBiasDw:
      return kernels::bias_dw(context, in(0), y, add);
    case OpKind::kLayerNorm: {
      Tensor stats = out(1);
      return kernels::layer_norm(context, in(0), in(1), in(2), y, stats, args.eps);
    }
    case OpKind::kAddLayerNorm: {
      Tensor normed = out(1);
      Tensor stats = out(2);
      return kernels::add_layer_norm(context, in(0), in(1), in(2), in(3), y, normed, stats,
                                     args.eps);
    }
    case OpKind::kLayerNormDx: {
      const Tensor residual = instruction.inputs.size() > 4 ? in(4) : Tensor();
      return kernels::layer_norm_dx(context, in(0), in(1), in(2), in(3), residual, y);
    }
    case OpKind::kLayerNormDw:
      return kernels::layer_norm_dw(context, in(0), in(1), in(2), y, add);
    case OpKind::kLayerNormDwBias: {
      Tensor db = out(1);
      return kernels::layer_norm_dw_bias(context, in(0), in(1), in(2), y, db, add);
    }
    case OpKind::kLayerNormGrad: {
      const Tensor residual = instruction.inputs.size() > 4 ? in(4) : Tensor();
      Tensor dw = out(1);
      Tensor db = out(2);
      return kernels::layer_norm_grad(context, in(0), in(1), in(2), in(3), residual, y, dw, db,
                                      add);
    }
    case OpKind::kGelu:
      return kernels::gelu(context, in(0), y);
    case OpKind::kGeluGrad:
      return kernels::gelu_grad(context, in(0), in(1), y);
    case OpKind::kAddPositions:
      return kernels::add_positions(context, in(0), in(1), y, rows_of(args), args.first_token);
    case OpKind::kPositionsDw:
      return kernels::positions_dw(context, in(0), y, rows_of(args), args.first_token, add);
    case OpKind::kHeadNorm: {
      Tensor rstd = out(1);
      return kernels::head_norm(context, in(0), in(1), y, rstd, args.eps);
    }
    case OpKind::kHeadNormDx:
      return kernels::head_norm_dx(context, in(0), in(1), in(2), in(3), y);
    case OpKind::kHeadNormDw:
      return kernels::head_norm_dw(context, in(0), in(1), in(2), y, add);
    case OpKind::kDropout:
      return kernels::dropout(context, in(0), y, dropout_mask(args), rows_of(args),
                              args.first_token);
    case OpKind::kCrossEntropyStats: {
      Tensor stats(y.data, y.dtype, {y.dim(1), y.dim(2)});  // this rank's one part
      return kernels::cross_entropy_stats(context, in(0), in(1), stats, args.first_row,
                                          args.valid_rows);
    }
    case OpKind::kCrossEntropyLoss:
      return kernels::cross_entropy_loss(context, in(0), in(1), y, add);
    case OpKind::kCrossEntropyGrad:
      return kernels::cross_entropy_grad(context, in(0), in(1), in(2), y, args.first_row,
                                         args.valid_rows);
    case OpKind::kSumSquares:
      return sum_squares(context, instruction, tensors);
    case OpKind::kMetrics:
      if (args.owner) kernels::add_metrics(context, in(0), in(1), y, args.updates);
      return;
    case OpKind::kCountTokens:
      return kernels::count_tokens(context, in(0), y);
    case OpKind::kAdamW:
      return update(context, instruction, tensors);
    case OpKind::kZero:
      return kernels::fill_zero(context, y);
    case OpKind::kConvert:
    case OpKind::kCopy:
      return kernels::copy(context, in(0), y);
    case OpKind::kAccumulate:
      return kernels::accumulate_into(context, in(0), y);
    default:
      if (run_expert_kernel(context, instruction, tensors)) return;
      TESSERA_CHECK(false, "{} '{}' is no kernel", name_of(instruction.op), instruction.name);
  }
}

}  // namespace tessera
