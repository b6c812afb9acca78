// Kernels of the transformer: dispatcher rows.
#pragma once

#include "runtime/kernel_call.h"

namespace tessera::dispatch {

inline SequenceRows rows_of(const KernelArgs& args) {
  return {args.seq_len, args.parts, args.q_part};
}

inline DropoutMask dropout_mask(const KernelArgs& args) {
  return {args.dropout, args.unit, args.site, args.first_sample};
}

inline kernels::AttentionShape attention_shape(const KernelCall& c) {
  const KernelArgs& args = c.args();
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
  if (args.documents) shape.starts = c.in(c.instruction.inputs.size() - 1).as<int32_t>();
  return shape;
}

// An input that attention may have, before that of its documents.
inline Tensor attention_input(const KernelCall& c, size_t i) {
  const size_t own = c.instruction.inputs.size() - (c.args().documents ? 1 : 0);
  return i < own ? c.in(i) : Tensor();
}

// This rank has one part of the statistics: [1, tokens, 3].
inline void cross_entropy_stats(const KernelCall& c) {
  const Tensor parts = c.out(0).tensor;
  Tensor stats(parts.data, parts.dtype, {parts.dim(1), parts.dim(2)});
  kernels::cross_entropy_stats(c.context, c.in(0), c.in(1), stats, c.args().first_row,
                               c.args().valid_rows);
}

inline constexpr KernelRow kModelKernels[] = {
    {OpKind::kEmbedding,
     [](const KernelCall& c) {
       kernels::embedding(c.context, c.in(0), c.in(1), c.out(0), c.args().first_row);
     }},
    {OpKind::kEmbeddingDw,
     [](const KernelCall& c) {
       kernels::embedding_dw(c.context, c.in(0), c.in(1), c.out(0), c.args().first_row, c.adds());
     }},
    {OpKind::kAddPositions,
     [](const KernelCall& c) {
       kernels::add_positions(c.context, c.in(0), c.in(1), c.out(0), rows_of(c.args()),
                              c.args().first_token);
     }},
    {OpKind::kPositionsDw,
     [](const KernelCall& c) {
       kernels::positions_dw(c.context, c.in(0), c.out(0), rows_of(c.args()), c.args().first_token,
                             c.adds());
     }},

    {OpKind::kLinear,
     [](const KernelCall& c) { kernels::linear(c.context, c.in(0), c.in(1), c.out(0)); }},
    {OpKind::kLinearDx,
     [](const KernelCall& c) {
       kernels::linear_dx(c.context, c.in(0), c.in(1), c.out(0), c.adds());
     }},
    {OpKind::kLinearDw,
     [](const KernelCall& c) {
       kernels::linear_dw(c.context, c.in(0), c.in(1), c.out(0), c.adds());
     }},
    {OpKind::kLinearBias,
     [](const KernelCall& c) {
       kernels::linear_bias(c.context, c.in(0), c.in(1), c.in(2), c.out(0), c.out_if_any(1));
     }},
    {OpKind::kLinearDxGelu,
     [](const KernelCall& c) {
       kernels::linear_dx_gelu(c.context, c.in(0), c.in(1), c.in(2), c.out(0));
     }},
    {OpKind::kLinearDwBias,
     [](const KernelCall& c) {
       kernels::linear_dw_bias(c.context, c.in(0), c.in(1), c.out(0), c.out(1), c.adds());
     }},
    {OpKind::kAddBias,
     [](const KernelCall& c) { kernels::add_bias(c.context, c.in(0), c.in(1), c.out(0)); }},
    {OpKind::kBiasDw,
     [](const KernelCall& c) { kernels::bias_dw(c.context, c.in(0), c.out(0), c.adds()); }},

    {OpKind::kRmsNorm,
     [](const KernelCall& c) {
       kernels::rms_norm(c.context, c.in(0), c.in(1), c.out(0), c.out(1), c.args().eps);
     }},
    {OpKind::kAddRmsNorm,
     [](const KernelCall& c) {
       kernels::add_rms_norm(c.context, c.in(0), c.in(1), c.in(2), c.out(0), c.out(1), c.out(2),
                             c.args().eps);
     }},
    {OpKind::kRmsNormDx,
     [](const KernelCall& c) {
       kernels::rms_norm_dx(c.context, c.in(0), c.in(1), c.in(2), c.in(3), c.in_if_any(4),
                            c.out(0));
     }},
    {OpKind::kRmsNormDw,
     [](const KernelCall& c) {
       kernels::rms_norm_dw(c.context, c.in(0), c.in(1), c.in(2), c.out(0), c.adds());
     }},
    {OpKind::kRmsNormGrad,
     [](const KernelCall& c) {
       kernels::rms_norm_grad(c.context, c.in(0), c.in(1), c.in(2), c.in(3), c.in_if_any(4),
                              c.out(0), c.out(1), c.adds());
     }},
    {OpKind::kLayerNorm,
     [](const KernelCall& c) {
       kernels::layer_norm(c.context, c.in(0), c.in(1), c.in(2), c.out(0), c.out(1), c.args().eps);
     }},
    {OpKind::kAddLayerNorm,
     [](const KernelCall& c) {
       kernels::add_layer_norm(c.context, c.in(0), c.in(1), c.in(2), c.in(3), c.out(0), c.out(1),
                               c.out(2), c.args().eps);
     }},
    {OpKind::kLayerNormDx,
     [](const KernelCall& c) {
       kernels::layer_norm_dx(c.context, c.in(0), c.in(1), c.in(2), c.in(3), c.in_if_any(4),
                              c.out(0));
     }},
    {OpKind::kLayerNormDw,
     [](const KernelCall& c) {
       kernels::layer_norm_dw(c.context, c.in(0), c.in(1), c.in(2), c.out(0), c.adds());
     }},
    {OpKind::kLayerNormDwBias,
     [](const KernelCall& c) {
       kernels::layer_norm_dw_bias(c.context, c.in(0), c.in(1), c.in(2), c.out(0), c.out(1),
                                   c.adds());
     }},
    {OpKind::kLayerNormGrad,
     [](const KernelCall& c) {
       kernels::layer_norm_grad(c.context, c.in(0), c.in(1), c.in(2), c.in(3), c.in_if_any(4),
                                c.out(0), c.out(1), c.out(2), c.adds());
     }},
    {OpKind::kHeadNorm,
     [](const KernelCall& c) {
       kernels::head_norm(c.context, c.in(0), c.in(1), c.out(0), c.out(1), c.args().eps);
     }},
    {OpKind::kHeadNormDx,
     [](const KernelCall& c) {
       kernels::head_norm_dx(c.context, c.in(0), c.in(1), c.in(2), c.in(3), c.out(0));
     }},
    {OpKind::kHeadNormDw,
     [](const KernelCall& c) {
       kernels::head_norm_dw(c.context, c.in(0), c.in(1), c.in(2), c.out(0), c.adds());
     }},

    {OpKind::kRope,
     [](const KernelCall& c) {
       kernels::rope(c.context, c.in(0), c.in(1), c.in(2), c.out(0), c.args().heads,
                     c.args().inverse);
     }},
    {OpKind::kAttention,
     [](const KernelCall& c) {
       kernels::attention(c.context, c.in(0), c.in(1), c.out(0), c.out(1), attention_shape(c));
     }},
    {OpKind::kAttentionGrad,
     [](const KernelCall& c) {
       kernels::attention_grad(c.context, c.in(0), c.in(1), c.in(2), c.in(3), c.in(4), c.out(0),
                               c.out(1), attention_shape(c));
     }},
    {OpKind::kAttentionPart,
     [](const KernelCall& c) {
       kernels::attention_part(c.context, c.in(0), c.in(1), attention_input(c, 2),
                               attention_input(c, 3), c.out(0), c.out(1), attention_shape(c));
     }},
    {OpKind::kAttentionGradPart,
     [](const KernelCall& c) {
       kernels::attention_grad_part(c.context, c.in(0), c.in(1), c.in(2), c.in(3), c.in(4),
                                    attention_input(c, 5), c.out(0), c.out(1), attention_shape(c));
     }},

    {OpKind::kSwiGlu, [](const KernelCall& c) { kernels::swiglu(c.context, c.in(0), c.out(0)); }},
    {OpKind::kSwiGluGrad,
     [](const KernelCall& c) { kernels::swiglu_grad(c.context, c.in(0), c.in(1), c.out(0)); }},
    {OpKind::kGelu, [](const KernelCall& c) { kernels::gelu(c.context, c.in(0), c.out(0)); }},
    {OpKind::kGeluGrad,
     [](const KernelCall& c) { kernels::gelu_grad(c.context, c.in(0), c.in(1), c.out(0)); }},
    {OpKind::kAdd,
     [](const KernelCall& c) { kernels::add(c.context, c.in(0), c.in(1), c.out(0)); }},
    {OpKind::kDropout,
     [](const KernelCall& c) {
       kernels::dropout(c.context, c.in(0), c.out(0), dropout_mask(c.args()), rows_of(c.args()),
                        c.args().first_token);
     }},

    {OpKind::kCrossEntropyStats, cross_entropy_stats},
    {OpKind::kCrossEntropyLoss,
     [](const KernelCall& c) {
       kernels::cross_entropy_loss(c.context, c.in(0), c.in(1), c.out(0), c.adds());
     }},
    {OpKind::kCrossEntropyGrad,
     [](const KernelCall& c) {
       kernels::cross_entropy_grad(c.context, c.in(0), c.in(1), c.in(2), c.out(0),
                                   c.args().first_row, c.args().valid_rows);
     }},
};

}  // namespace tessera::dispatch
