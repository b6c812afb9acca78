// Attention, its hops over cp (passes/ring_attention.h), and rotary positions.
#pragma once

#include "graph/ops/common.h"

namespace tessera::ops {

inline Types attention_types(const Operands& o) {
  return {o.like(0), {o.wide(0), {o.dim(0, 0), o.attrs().heads}, {}}};
}
inline Types attention_grad_types(const Operands& o) { return {o.like(0), o.like(1)}; }
inline Types attention_part_types(const Operands& o) {
  return {{o.wide(0), o.in(0).shape, {}}, {o.wide(0), {o.dim(0, 0), o.attrs().heads}, {}}};
}
inline Types attention_grad_part_types(const Operands& o) {
  return {{o.wide(0), o.in(0).shape, {}}, {o.wide(1), o.in(1).shape, {}}};
}

inline void rope_gradient(Gradients& g, const Node& node, ValueId dy) {
  Attrs attrs = node.attrs;
  attrs.inverse = !attrs.inverse;
  g.contribute(node.inputs[0], OpKind::kRope, {dy}, attrs, input_grad(node));
}
inline void attention_gradient(Gradients& g, const Node& node, ValueId dy) {
  const ValueId q = node.inputs[0];
  const ValueId kv = node.inputs[1];
  g.contribute_pair(q, kv, OpKind::kAttentionGrad, {q, kv, node.outputs[0], node.outputs[1], dy},
                    node.attrs, input_grad(node));
}

inline int64_t cpu_attention(const KernelSizes& s) {
  return workspace::attention(s.dtype, s.keys_per_sequence, s.attrs->head_dim, s.threads);
}
inline int64_t cpu_attention_grad(const KernelSizes& s) {
  return workspace::attention_grad(s.dtype, s.keys_per_sequence, s.attrs->head_dim, s.threads);
}
inline int64_t gpu_attention(const KernelSizes& s) { return workspace::cuda::attention(s.dtype); }
inline int64_t gpu_attention_grad(const KernelSizes& s) {
  const int64_t dim = s.attrs->head_dim;
  return workspace::cuda::attention_grad(s.dtype, s.in(0)[0], s.in(0)[1] / dim,
                                         s.in(1)[1] / 2 / dim, dim);
}
inline int64_t gpu_attention_grad_part(const KernelSizes& s) {
  return workspace::cuda::attention_dots(s.dtype, s.in(0)[0], s.in(0)[1] / s.attrs->head_dim);
}

inline constexpr OpRow kAttentionOps[] = {
    {.kind = OpKind::kRope,
     .name = "rope",
     .signature = "x > y",
     .types = like_input<0>,
     .rules = {"I > I", "R > R", "P > P", "S1 > S1", "tokens S0 > S0"},
     .gradient = rope_gradient,
     .storage = over_input(0),
     .adds = Adds::kNever,
     .op_class = OpClass::kActivations,
     .cost = {.bytes = BytesMoved::kTurnedColumns},
     .kernel = {.numbers = KernelNumbers::kHeads, .extra = ExtraOperands::kRopeTables}},
    {.kind = OpKind::kAttention,
     .name = "attention",
     .signature = "q kv > o lse",
     .types = attention_types,
     .rules = {"I I > I I", "S1 S1 > S1 S1", "S1 R > S1 S1", "tokens S0 S0 > S0 S0",
               "cp S0 R > S0 S0"},
     .gradient = attention_gradient,
     .storage = Place::kNew,
     .adds = Adds::kNever,
     .op_class = OpClass::kAttention,
     .cost = {.attention_products = kForwardProducts},
     .kernel = {.numbers = KernelNumbers::kAttention,
                .extra = ExtraOperands::kDocumentStarts,
                .cpu_scratch = cpu_attention,
                .gpu_scratch = gpu_attention},
     .cheap = CheapAs::kAttention},
    {.kind = OpKind::kAttentionGrad,
     .name = "attention_grad",
     .signature = "q kv o lse do > dq dkv",
     .types = attention_grad_types,
     .rules = {"I I I I I > I I", "S1 S1 S1 S1 S1 > S1 S1", "S1 R S1 S1 S1 > S1 P",
               "tokens S0 S0 S0 S0 S0 > S0 S0", "cp S0 R S0 S0 S0 > S0 P"},
     .gradient = no_gradient,
     .storage = Place::kNew,
     .adds = Adds::kNever,
     .op_class = OpClass::kAttention,
     .cost = {.attention_products = kBackwardProducts},
     .kernel = {.numbers = KernelNumbers::kAttention,
                .extra = ExtraOperands::kDocumentStarts,
                .cpu_scratch = cpu_attention_grad,
                .gpu_scratch = gpu_attention_grad}},
    // To the keys of one rank, or merged with what is known of those of others.
    {.kind = OpKind::kAttentionPart,
     .name = "attention_part",
     .signature = "q kv [o lse] > o lse",
     .types = attention_part_types,
     .rules = {"I I > I I", "S1 S1 > S1 S1", "S1 R > S1 S1", "tokens S0 S0 > S0 S0",
               "I I I I > I I", "S1 S1 S1 S1 > S1 S1", "S1 R S1 S1 > S1 S1",
               "tokens S0 S0 S0 S0 > S0 S0"},
     .gradient = no_gradient,
     .storage = StorageRule::over(Overwrite{0, 2}, Overwrite{1, 3}),
     .adds = Adds::kNever,
     .op_class = OpClass::kAttention,
     .cost = {.attention_products = kForwardProducts},
     .kernel = {.numbers = KernelNumbers::kAttention,
                .extra = ExtraOperands::kDocumentStarts,
                .cpu_scratch = cpu_attention}},
    {.kind = OpKind::kAttentionGradPart,
     .name = "attention_grad_part",
     .signature = "q kv o lse do [dq] > dq dkv",
     .types = attention_grad_part_types,
     .rules = {"I I I I I > I I", "S1 S1 S1 S1 S1 > S1 S1", "S1 R S1 S1 S1 > S1 P",
               "tokens S0 S0 S0 S0 S0 > S0 S0", "I I I I I I > I I", "S1 S1 S1 S1 S1 S1 > S1 S1",
               "S1 R S1 S1 S1 S1 > S1 P", "tokens S0 S0 S0 S0 S0 S0 > S0 S0"},
     .gradient = no_gradient,
     .storage = over_input(5),
     .adds = Adds::kNever,
     .op_class = OpClass::kAttention,
     .cost = {.attention_products = kBackwardProducts},
     .kernel = {.numbers = KernelNumbers::kAttention,
                .extra = ExtraOperands::kDocumentStarts,
                .cpu_scratch = cpu_attention_grad,
                .gpu_scratch = gpu_attention_grad_part}},
};

}  // namespace tessera::ops
