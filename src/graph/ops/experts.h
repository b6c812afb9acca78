// Mixture of experts. Rows are [source, peer, capacity, width]: S0 before the exchange, S1 after
// it. Choices (ids, counts, slots) are integers and carry no gradient.
#pragma once

#include "graph/ops/common.h"
#include "graph/ops/expert_rows.h"

namespace tessera::ops {

inline Types router_types(const Operands& o) {
  const ExpertAttrs& a = o.attrs().experts;
  o.want(o.in(0).shape.size() == 2 && o.dim(0, 1) == a.experts, "needs one logit per expert");
  return {{o.wide(0), {o.dim(0, 0), a.per_token}, {}},
          {DType::kI32, {o.dim(0, 0), a.per_token}, {}}};
}
inline Types router_grad_types(const Operands& o) {
  const ExpertAttrs& a = o.attrs().experts;
  return {{a.dtype, {o.dim(0, 0), a.experts}, {}}};
}
inline Types router_stats_types(const Operands& o) {
  const ExpertAttrs& a = o.attrs().experts;
  return {{DType::kF64, {a.sequences, 2 * a.experts + 1}, {}}};
}
inline Types dispatch_types(const Operands& o) {
  const ExpertAttrs& a = o.attrs().experts;
  o.want(o.in(0).shape.size() == 2 && o.in(1).shape.size() == 2 && o.dim(0, 0) == o.dim(1, 0),
         "needs one row of expert ids per token");
  o.want(a.experts % a.peers == 0, "the experts do not divide over their ranks");
  return {{o.in(0).dtype, {a.sources, a.peers, a.capacity, o.dim(0, 1)}, {}},
          {DType::kI32, {a.sources, a.peers, a.experts / a.peers}, {}},
          {DType::kI32, o.in(1).shape, {}}};
}
// Rows of experts back to tokens.
inline Types token_rows_types(const Operands& o) {
  return {{o.in(0).dtype, {o.dim(1, 0), o.dim(0, 3)}, {}}};
}
inline Types expert_linear_dx_types(const Operands& o) {
  return rows_of_width(o, o.dim(1, 1), o.dim(1, 2));
}
inline Types expert_linear_dw_types(const Operands& o) {
  return {{o.gradient(0), {o.attrs().experts.experts, o.dim(0, 3), o.dim(1, 3)}, {}}};
}
inline Types expert_swiglu_types(const Operands& o) {
  return rows_of_width(o, o.dim(0, 3), o.dim(0, 3) / 2);
}
inline Types combine_grad_types(const Operands& o) { return {o.like(1), o.like(3)}; }

inline void router_gradient(Gradients& g, const Node& node, ValueId dy) {
  g.contribute(node.inputs[0], OpKind::kRouterGrad, {dy, node.outputs[0], node.outputs[1]},
               node.attrs, input_grad(node));
}
inline void router_stats_gradient(Gradients& g, const Node& node, ValueId dy) {
  if (node.accumulate) g.contribute_value(node.inputs.back(), dy, input_grad(node));
  g.contribute(node.inputs[0], OpKind::kRouterStatsGrad, {node.inputs[0], dy}, node.attrs,
               input_grad(node));
}
inline void dispatch_gradient(Gradients& g, const Node& node, ValueId dy) {
  g.contribute(node.inputs[0], OpKind::kDispatchGrad, {dy, node.outputs[2]}, node.attrs,
               input_grad(node));
}
inline void expert_linear_gradient(Gradients& g, const Node& node, ValueId dy) {
  const ValueId rows = node.inputs[0];
  const ValueId w = node.inputs[1];
  const ValueId counts = node.inputs[2];
  g.contribute(rows, OpKind::kExpertLinearDx, {dy, w, counts}, node.attrs, input_grad(node));
  g.contribute_weight(w, OpKind::kExpertLinearDw, {dy, rows, counts}, node.attrs, node.tag);
}
inline void expert_swiglu_gradient(Gradients& g, const Node& node, ValueId dy) {
  g.contribute(node.inputs[0], OpKind::kExpertSwiGluGrad, {dy, node.inputs[0], node.inputs[1]},
               node.attrs, input_grad(node));
}
inline void combine_gradient(Gradients& g, const Node& node, ValueId dy) {
  const ValueId rows = node.inputs[0];
  const ValueId gates = node.inputs[2];
  g.contribute_pair(rows, gates, OpKind::kCombineGrad, {dy, rows, node.inputs[1], gates},
                    node.attrs, input_grad(node));
}
// It adds a column that nothing depends on.
inline void balance_totals_gradient(Gradients& g, const Node& node, ValueId dy) {
  g.contribute_value(node.inputs[0], dy, input_grad(node));
}
inline void balance_loss_gradient(Gradients& g, const Node& node, ValueId) {
  g.contribute(node.inputs[0], OpKind::kBalanceGrad, {node.inputs[0]}, node.attrs,
               input_grad(node));
}

inline int64_t cpu_dispatch(const KernelSizes& s) {
  return workspace::dispatch_rows(s.attrs->experts.experts);
}
inline int64_t cpu_expert_linear(const KernelSizes& s) {
  return workspace::linear(s.dtype, s.attrs->experts.capacity, s.in(1)[1], s.in(1)[2], s.threads);
}
inline int64_t cpu_expert_linear_dw(const KernelSizes& s) {
  return workspace::linear(s.dtype, s.attrs->experts.capacity, s.out(0)[1], s.out(0)[2], s.threads);
}
inline int64_t gpu_router_stats(const KernelSizes& s) {
  return workspace::cuda::router_stats(s.out(0)[0], s.tokens_per_sequence, (s.out(0)[1] - 1) / 2);
}
inline int64_t gpu_dispatch(const KernelSizes& s) {
  return workspace::cuda::dispatch_rows(numel(s.in(1)), s.attrs->experts.experts);
}
inline int64_t gpu_combine_grad(const KernelSizes& s) {
  return workspace::cuda::combine_rows_grad(numel(s.in(1)) / s.in(1).back());
}
inline int64_t gpu_balance_loss(const KernelSizes& s) {
  return workspace::cuda::balance_loss(s.in(0)[0]);
}

inline constexpr OpRow kExpertOps[] = {
    {.kind = OpKind::kRouter,
     .name = "router",
     .signature = "logits > gates ids",
     .types = router_types,
     .rules = {"I > I I", "S0 > S0 S0"},
     .gradient = router_gradient,
     .storage = Place::kNew,
     .adds = Adds::kNever,
     .op_class = OpClass::kRouting},
    {.kind = OpKind::kRouterGrad,
     .name = "router_grad",
     .signature = "d_gates gates ids > d_logits",
     .types = router_grad_types,
     .rules = {"I I I > I", "S0 S0 S0 > S0"},
     .gradient = no_gradient,
     .storage = Place::kNew,
     .adds = Adds::kToOutput,
     .op_class = OpClass::kRouting},
    // stats: [sequences, .]. Where whole sequences are split the statistics are too; elsewhere
    // every rank has a part of each sequence.
    {.kind = OpKind::kRouterStats,
     .name = "router_stats",
     .signature = "logits ids > stats",
     .types = router_stats_types,
     .rules = {"I I > I", "S0 S0 > P", "data S0 S0 > S0"},
     .gradient = router_stats_gradient,
     .storage = Place::kNew,
     .adds = Adds::kToOutput,
     .op_class = OpClass::kRouting,
     .kernel = {.extra = ExtraOperands::kRouterLoad, .gpu_scratch = gpu_router_stats}},
    {.kind = OpKind::kRouterStatsGrad,
     .name = "router_stats_grad",
     .signature = "logits d_stats > d_logits",
     .types = like_input<0>,
     .rules = {"I I > I", "S0 R > S0", "data S0 S0 > S0"},
     .gradient = no_gradient,
     .storage = Place::kNew,
     .adds = Adds::kToOutput,
     .op_class = OpClass::kRouting},
    {.kind = OpKind::kDispatch,
     .name = "dispatch",
     .signature = "x ids > rows counts slots",
     .types = dispatch_types,
     .rules = {"I I > I I I", "S0 S0 > S0 S0 S0"},
     .gradient = dispatch_gradient,
     .storage = Place::kNew,
     .adds = Adds::kNever,
     .op_class = OpClass::kRouting,
     .kernel = {.cpu_scratch = cpu_dispatch, .gpu_scratch = gpu_dispatch}},
    {.kind = OpKind::kDispatchGrad,
     .name = "dispatch_grad",
     .signature = "d_rows slots > dx",
     .types = token_rows_types,
     .rules = {"I I > I", "S0 S0 > S0"},
     .gradient = no_gradient,
     .storage = Place::kNew,
     .adds = Adds::kNever,
     .op_class = OpClass::kRouting,
     .cost = {.only_filled = true}},
    expert_rows(OpKind::kExpertLinear, "expert_linear", expert_linear_gradient, cpu_expert_linear),
    {.kind = OpKind::kExpertLinearDx,
     .name = "expert_linear_dx",
     .signature = "dy weight counts > d_rows",
     .types = expert_linear_dx_types,
     .rules = {"I I I > I", "S0 R S0 > S0", "S1 S0 S1 > S1"},
     .gradient = no_gradient,
     .storage = Place::kNew,
     .adds = Adds::kNever,
     .op_class = OpClass::kProducts,
     .cost = {.product = Product::kExpertRows, .only_filled = true},
     .kernel = {.cpu_scratch = cpu_expert_linear}},
    {.kind = OpKind::kExpertLinearDw,
     .name = "expert_linear_dw",
     .signature = "dy rows counts > dw",
     .types = expert_linear_dw_types,
     .rules = {"I I I > I", "S0 S0 S0 > P", "S1 S1 S1 > S0"},
     .gradient = no_gradient,
     .storage = Place::kNew,
     .adds = Adds::kToOutput,
     .op_class = OpClass::kProducts,
     .cost = {.product = Product::kExpertWeights, .only_filled = true},
     .kernel = {.cpu_scratch = cpu_expert_linear_dw}},
    {.kind = OpKind::kExpertSwiGlu,
     .name = "expert_swiglu",
     .signature = "gate_up counts > h",
     .types = expert_swiglu_types,
     .rules = {"I I > I", "S0 S0 > S0", "S1 S1 > S1"},
     .gradient = expert_swiglu_gradient,
     .storage = Place::kNew,
     .adds = Adds::kNever,
     .op_class = OpClass::kActivations,
     .cost = {.only_filled = true},
     .cheap = CheapAs::kActivation},
    {.kind = OpKind::kExpertSwiGluGrad,
     .name = "expert_swiglu_grad",
     .signature = "dh gate_up counts > d_gate_up",
     .types = like_input<1>,
     .rules = {"I I I > I", "S0 S0 S0 > S0", "S1 S1 S1 > S1"},
     .gradient = no_gradient,
     .storage = over_input(1),
     .adds = Adds::kNever,
     .op_class = OpClass::kActivations,
     .cost = {.only_filled = true}},
    {.kind = OpKind::kCombine,
     .name = "combine",
     .signature = "rows slots gates > y",
     .types = token_rows_types,
     .rules = {"I I I > I", "S0 S0 S0 > S0"},
     .gradient = combine_gradient,
     .storage = Place::kNew,
     .adds = Adds::kNever,
     .op_class = OpClass::kRouting,
     .cost = {.only_filled = true}},
    {.kind = OpKind::kCombineGrad,
     .name = "combine_grad",
     .signature = "dy rows slots gates > d_rows d_gates",
     .types = combine_grad_types,
     .rules = {"I I I I > I I", "S0 S0 S0 S0 > S0 S0"},
     .gradient = no_gradient,
     .storage = Place::kNew,
     .adds = Adds::kNever,
     .op_class = OpClass::kRouting,
     .kernel = {.gpu_scratch = gpu_combine_grad}},
    {.kind = OpKind::kBalanceTotals,
     .name = "balance_totals",
     .signature = "stats labels > totals",
     .types = like_input<0>,
     .rules = {"I I > I", "I R > I", "P S0 > P", "data S0 S0 > S0"},
     .gradient = balance_totals_gradient,
     .storage = over_input(0),
     .adds = Adds::kNever,
     .op_class = OpClass::kRouting},
    // Every rank adds the share of its own labels.
    {.kind = OpKind::kBalanceLoss,
     .name = "balance_loss",
     .signature = "totals labels > loss",
     .types = one_number,
     .rules = {"I I > I", "I R > I", "I S0 > P", "data S0 S0 > P"},
     .gradient = {balance_loss_gradient, Gradient::Needs::kNothing},
     .storage = Place::kLoss,
     .adds = Adds::kToOutput,
     .op_class = OpClass::kRouting,
     .kernel = {.gpu_scratch = gpu_balance_loss}},
    {.kind = OpKind::kBalanceGrad,
     .name = "balance_grad",
     .signature = "totals > d_totals",
     .types = like_input<0>,
     .rules = {"I > I", "data S0 > S0"},
     .gradient = no_gradient,
     .storage = Place::kNew,
     .adds = Adds::kNever,
     .op_class = OpClass::kRouting},
};

}  // namespace tessera::ops
