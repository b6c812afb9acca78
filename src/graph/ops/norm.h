// Norms: of rows (RMSNorm, LayerNorm) and of heads, additions fused with them
// (passes/passes.h), and their gradients in one (lower/fuse_norm_gradients.h).
#pragma once

#include "graph/ops/common.h"

namespace tessera::ops {

inline TensorType row_statistics(const Operands& o) { return {o.wide(0), {o.dim(0, 0)}, {}}; }
inline TensorType row_moments(const Operands& o) { return {o.wide(0), {o.dim(0, 0), 2}, {}}; }

inline Types rms_norm_types(const Operands& o) {
  o.want_matrix(0);
  o.want(o.in(1).shape == Shape{o.dim(0, 1)}, "the weight must match the width");
  return {o.like(0), row_statistics(o)};
}
inline Types add_rms_norm_types(const Operands& o) {
  o.want_matrix(0);
  o.want_alike(0, 1);
  o.want(o.in(2).shape == Shape{o.dim(0, 1)}, "the weight must match the width");
  return {o.like(0), o.like(0), row_statistics(o)};
}
inline Types layer_norm_types(const Operands& o) {
  o.want_matrix(0);
  o.want(o.in(1).shape == Shape{o.dim(0, 1)} && o.in(2).shape == o.in(1).shape,
         "weight and bias must match the width");
  return {o.like(0), row_moments(o)};
}
inline Types add_layer_norm_types(const Operands& o) {
  o.want_matrix(0);
  o.want_alike(0, 1);
  o.want(o.in(2).shape == Shape{o.dim(0, 1)} && o.in(3).shape == o.in(2).shape,
         "weight and bias must match the width");
  return {o.like(0), o.like(0), row_moments(o)};
}
inline Types head_norm_types(const Operands& o) {
  o.want_matrix(0);
  o.want(o.in(1).shape == Shape{o.attrs().head_dim}, "the weight must match a head");
  o.want(o.attrs().heads * o.attrs().head_dim <= o.dim(0, 1), "the heads do not fit");
  return {o.like(0), {o.wide(0), {o.dim(0, 0), o.attrs().heads}, {}}};
}
inline Types norm_dw_types(const Operands& o) { return {{o.gradient(1), {o.dim(1, 1)}, {}}}; }
inline Types head_norm_dw_types(const Operands& o) {
  return {{o.gradient(1), {o.attrs().head_dim}, {}}};
}

inline void rms_norm_gradient(Gradients& g, const Node& node, ValueId dy) {
  const ValueId x = node.inputs[0];
  const ValueId w = node.inputs[1];
  const ValueId rstd = node.outputs[1];
  g.contribute(x, OpKind::kRmsNormDx, {dy, x, w, rstd}, node.attrs, input_grad(node));
  g.contribute_weight(w, OpKind::kRmsNormDw, {dy, x, rstd}, {}, node.tag);
}
inline void layer_norm_gradient(Gradients& g, const Node& node, ValueId dy) {
  const ValueId x = node.inputs[0];
  const ValueId w = node.inputs[1];
  const ValueId b = node.inputs[2];
  const ValueId stats = node.outputs[1];
  g.contribute(x, OpKind::kLayerNormDx, {dy, x, w, stats}, node.attrs, input_grad(node));
  g.contribute_weight(w, OpKind::kLayerNormDw, {dy, x, stats}, {}, node.tag);
  g.contribute_weight(b, OpKind::kBiasDw, {dy}, {}, node.tag);
}
inline void head_norm_gradient(Gradients& g, const Node& node, ValueId dy) {
  const ValueId x = node.inputs[0];
  const ValueId w = node.inputs[1];
  const ValueId rstd = node.outputs[1];
  g.contribute(x, OpKind::kHeadNormDx, {dy, x, w, rstd}, node.attrs, input_grad(node));
  g.contribute_weight(w, OpKind::kHeadNormDw, {dy, x, rstd}, node.attrs, node.tag);
}

inline int64_t cpu_rms_norm_dw(const KernelSizes& s) {
  return workspace::rms_norm_dw(s.dtype, s.in(1)[0], s.in(1)[1], s.threads);
}
inline int64_t gpu_head_norm_dw(const KernelSizes& s) {
  return workspace::cuda::column_sums(s.dtype, numel(s.in(2)), s.out(0)[0]);
}
inline int64_t gpu_layer_norm_dw_bias(const KernelSizes& s) {
  return workspace::cuda::column_sums(s.dtype, s.in(0)[0], s.in(0)[1], 2);
}
inline int64_t gpu_layer_norm_grad(const KernelSizes& s) {
  return workspace::cuda::norm_grad(s.dtype, s.in(0)[0], s.in(0)[1], 2);
}
inline int64_t gpu_rms_norm_grad(const KernelSizes& s) {
  return workspace::cuda::norm_grad(s.dtype, s.in(0)[0], s.in(0)[1], 1);
}

// What all norms and their gradients have in common, and below what is more or different.
constexpr OpRow norm_op(OpKind kind, const char* name, const char* signature, TypeRule* types,
                        RuleTexts rules) {
  return {.kind = kind,
          .name = name,
          .signature = signature,
          .types = types,
          .rules = rules,
          .gradient = no_gradient,
          .storage = Place::kNew,
          .adds = Adds::kNever,
          .op_class = OpClass::kNorms};
}
constexpr OpRow row_norm(OpRow norm, Gradient gradient) {
  norm.gradient = gradient;
  norm.cheap = CheapAs::kNorm;
  return norm;
}
constexpr OpRow add_row_norm(OpRow norm) {
  norm.storage = over_input(1, 0);
  return norm;
}
constexpr OpRow row_norm_dx(OpKind kind, const char* name, const char* signature) {
  OpRow dx = norm_op(kind, name, signature, like_input<1>, {"I I I I > I", "S0 S0 R S0 > S0"});
  dx.adds = Adds::kInKernel;
  return dx;
}
constexpr OpRow norm_dw(OpRow dw, KernelNeeds kernel) {
  dw.adds = Adds::kToOutput;
  dw.kernel = kernel;
  return dw;
}
inline constexpr RuleTexts kRowNormDwRules = {"I I I > I", "S0 S0 S0 > P"};

inline constexpr OpRow kNormOps[] = {
    row_norm(norm_op(OpKind::kRmsNorm, "rms_norm", "x weight > y rstd", rms_norm_types,
                     {"I I > I I", "S0 R > S0 S0"}),
             rms_norm_gradient),
    add_row_norm(norm_op(OpKind::kAddRmsNorm, "add_rms_norm", "a b weight > sum y rstd",
                         add_rms_norm_types, {"I I I > I I I", "S0 S0 R > S0 S0 S0"})),
    row_norm_dx(OpKind::kRmsNormDx, "rms_norm_dx", "dy x weight rstd > dx"),
    norm_dw(norm_op(OpKind::kRmsNormDw, "rms_norm_dw", "dy x rstd > dw", norm_dw_types,
                    kRowNormDwRules),
            {.cpu_scratch = cpu_rms_norm_dw, .gpu_scratch = gpu_column_sums}),
    row_norm(norm_op(OpKind::kLayerNorm, "layer_norm", "x weight bias > y stats", layer_norm_types,
                     {"I I I > I I", "S0 R R > S0 S0"}),
             layer_norm_gradient),
    add_row_norm(norm_op(OpKind::kAddLayerNorm, "add_layer_norm", "a b weight bias > sum y stats",
                         add_layer_norm_types, {"I I I I > I I I", "S0 S0 R R > S0 S0 S0"})),
    row_norm_dx(OpKind::kLayerNormDx, "layer_norm_dx", "dy x weight stats > dx"),
    norm_dw(norm_op(OpKind::kLayerNormDw, "layer_norm_dw", "dy x stats > dw", norm_dw_types,
                    kRowNormDwRules),
            {.gpu_scratch = gpu_column_sums}),
    // Ranks with other heads share the weight.
    {.kind = OpKind::kHeadNorm,
     .name = "head_norm",
     .signature = "x weight > y rstd",
     .types = head_norm_types,
     .rules = {"I I > I I", "S0 R > S0 S0", "S1 R > S1 S1", "R R > R R"},
     .gradient = head_norm_gradient,
     .storage = Place::kNew,
     .adds = Adds::kNever,
     .op_class = OpClass::kNorms},
    {.kind = OpKind::kHeadNormDx,
     .name = "head_norm_dx",
     .signature = "dy x weight rstd > dx",
     .types = like_input<1>,
     .rules = {"I I I I > I", "S0 S0 R S0 > S0", "S1 S1 R S1 > S1", "P R R R > P"},
     .gradient = no_gradient,
     .storage = over_input(0),
     .adds = Adds::kNever,
     .op_class = OpClass::kNorms},
    norm_dw(norm_op(OpKind::kHeadNormDw, "head_norm_dw", "dy x rstd > dw", head_norm_dw_types,
                    {"I I I > I", "S0 S0 S0 > P", "S1 S1 S1 > P", "P R R > P"}),
            {.gpu_scratch = gpu_head_norm_dw}),
    only_lowered(OpKind::kLayerNormDwBias, "layer_norm_dw_bias", "dy x stats > dw dbias",
                 OpClass::kNorms, {}, gpu_layer_norm_dw_bias),
    only_lowered(OpKind::kLayerNormGrad, "layer_norm_grad",
                 "dy x weight stats [before] > dx dw dbias", OpClass::kNorms, {.added_output = 1},
                 gpu_layer_norm_grad),
    only_lowered(OpKind::kRmsNormGrad, "rms_norm_grad", "dy x weight rstd [before] > dx dw",
                 OpClass::kNorms, {.added_output = 1}, gpu_rms_norm_grad),
};

}  // namespace tessera::ops
