// Products with weights, biases, and products with what follows them (lower/fuse_products.h).
#pragma once

#include "graph/ops/common.h"

namespace tessera::ops {

inline Types linear_types(const Operands& o) {
  o.want_matrix(0), o.want_matrix(1);
  o.want(o.dim(0, 1) == o.dim(1, 1), "inner dimensions differ");
  return {{o.in(0).dtype, {o.dim(0, 0), o.dim(1, 0)}, {}}};
}
inline Types linear_dx_types(const Operands& o) {
  o.want_matrix(0), o.want_matrix(1);
  o.want(o.dim(0, 1) == o.dim(1, 0), "inner dimensions differ");
  return {{o.in(0).dtype, {o.dim(0, 0), o.dim(1, 1)}, {}}};
}
inline Types linear_dw_types(const Operands& o) {
  o.want_matrix(0), o.want_matrix(1);
  o.want(o.dim(0, 0) == o.dim(1, 0), "token counts differ");
  return {{o.gradient(0), {o.dim(0, 1), o.dim(1, 1)}, {}}};
}
inline Types add_bias_types(const Operands& o) {
  o.want_matrix(0);
  o.want(o.in(1).shape == Shape{o.dim(0, 1)}, "the bias must match the width");
  return {o.like(0)};
}
inline Types bias_dw_types(const Operands& o) {
  o.want_matrix(0);
  return {{o.gradient(0), {o.dim(0, 1)}, {}}};
}

inline void linear_gradient(Gradients& g, const Node& node, ValueId dy) {
  const ValueId x = node.inputs[0];
  const ValueId w = node.inputs[1];
  g.contribute(x, OpKind::kLinearDx, {dy, w}, {}, input_grad(node));
  g.contribute_weight(w, OpKind::kLinearDw, {dy, x}, {}, node.tag);
}
inline void add_bias_gradient(Gradients& g, const Node& node, ValueId dy) {
  g.contribute_value(node.inputs[0], dy, input_grad(node));
  g.contribute_weight(node.inputs[1], OpKind::kBiasDw, {dy}, {}, node.tag);
}

inline int64_t cpu_linear(const KernelSizes& s) {
  return workspace::linear(s.dtype, s.in(0)[0], s.in(1)[0], s.in(0)[1], s.threads);
}
inline int64_t cpu_linear_dx(const KernelSizes& s) {
  return workspace::linear(s.dtype, s.in(0)[0], s.in(1)[0], s.in(1)[1], s.threads);
}
inline int64_t cpu_linear_dw(const KernelSizes& s) {
  return workspace::linear(s.dtype, s.in(0)[0], s.out(0)[0], s.out(0)[1], s.threads);
}
inline int64_t gpu_product(const KernelSizes&) { return workspace::cuda::kMatmulBytes; }

inline constexpr OpRow kLinearOps[] = {
    {.kind = OpKind::kLinear,
     .name = "linear",
     .signature = "x weight > y",
     .types = linear_types,
     .rules = {"I I > I", "S0 R > S0", "R S0 > S1", "S1 S1 > P", "R R > R"},
     .gradient = linear_gradient,
     .storage = Place::kNew,
     .adds = Adds::kNever,
     .op_class = OpClass::kProducts,
     .cost = {.product = Product::kRows},
     .kernel = {.cpu_scratch = cpu_linear, .gpu_scratch = gpu_product}},
    {.kind = OpKind::kLinearDx,
     .name = "linear_dx",
     .signature = "dy weight > dx",
     .types = linear_dx_types,
     .rules = {"I I > I", "S0 R > S0", "S1 S0 > P", "R S1 > S1", "P R > P"},
     .gradient = no_gradient,
     .storage = Place::kNew,
     .adds = Adds::kToOutput,
     .op_class = OpClass::kProducts,
     .cost = {.product = Product::kRows},
     .kernel = {.cpu_scratch = cpu_linear_dx, .gpu_scratch = gpu_product}},
    {.kind = OpKind::kLinearDw,
     .name = "linear_dw",
     .signature = "dy x > dw",
     .types = linear_dw_types,
     .rules = {"I I > I", "S0 S0 > P", "S1 R > S0", "R S1 > S1", "P R > P"},
     .gradient = no_gradient,
     .storage = Place::kNew,
     .adds = Adds::kToOutput,
     .op_class = OpClass::kProducts,
     .cost = {.product = Product::kWeights},
     .kernel = {.cpu_scratch = cpu_linear_dw, .gpu_scratch = gpu_product}},
    // A bias is added once: to a partial sum every rank would add it, so P is not taken.
    {.kind = OpKind::kAddBias,
     .name = "add_bias",
     .signature = "x bias > y",
     .types = add_bias_types,
     .rules = {"I I > I", "S0 R > S0", "S1 S0 > S1", "R R > R"},
     .gradient = add_bias_gradient,
     .storage = over_input(0),
     .adds = Adds::kNever,
     .op_class = OpClass::kActivations},
    {.kind = OpKind::kBiasDw,
     .name = "bias_dw",
     .signature = "dy > dbias",
     .types = bias_dw_types,
     .rules = {"I > I", "S0 > P", "S1 > S0", "P > P"},
     .gradient = no_gradient,
     .storage = Place::kNew,
     .adds = Adds::kToOutput,
     .op_class = OpClass::kActivations,
     .kernel = {.gpu_scratch = gpu_column_sums}},
    // Their scratch is that of the products they are made from.
    only_lowered(OpKind::kLinearBias, "linear_bias", "x weight bias > y [gelu]", OpClass::kProducts,
                 {.product = Product::kRows}),
    only_lowered(OpKind::kLinearDxGelu, "linear_dx_gelu", "dy weight x > dx", OpClass::kProducts,
                 {.product = Product::kRows}),
    only_lowered(OpKind::kLinearDwBias, "linear_dw_bias", "dy x > dw dbias", OpClass::kProducts,
                 {.product = Product::kWeights}),
};

}  // namespace tessera::ops
