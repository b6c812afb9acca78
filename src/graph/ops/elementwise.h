// Element by element: activation functions, additions, dropout.
#pragma once

#include "graph/ops/common.h"

namespace tessera::ops {

inline Types swiglu_types(const Operands& o) {
  o.want_matrix(0);
  o.want(o.dim(0, 1) % 2 == 0, "needs gate and up");
  return {{o.in(0).dtype, {o.dim(0, 0), o.dim(0, 1) / 2}, {}}};
}
inline Types add_types(const Operands& o) {
  o.want_alike(0, 1);
  return {o.like(0)};
}
inline Types dropout_types(const Operands& o) {
  o.want_matrix(0);
  return {o.like(0)};
}

inline void swiglu_gradient(Gradients& g, const Node& node, ValueId dy) {
  g.contribute(node.inputs[0], OpKind::kSwiGluGrad, {dy, node.inputs[0]}, {}, input_grad(node));
}
inline void gelu_gradient(Gradients& g, const Node& node, ValueId dy) {
  g.contribute(node.inputs[0], OpKind::kGeluGrad, {dy, node.inputs[0]}, {}, input_grad(node));
}
inline void add_gradient(Gradients& g, const Node& node, ValueId dy) {
  g.contribute_value(node.inputs[0], dy, input_grad(node));
  g.contribute_value(node.inputs[1], dy, input_grad(node));
}
inline void dropout_gradient(Gradients& g, const Node& node, ValueId dy) {
  g.contribute(node.inputs[0], OpKind::kDropout, {dy}, node.attrs, input_grad(node));
}

inline constexpr OpRow kElementwiseOps[] = {
    {.kind = OpKind::kSwiGlu,
     .name = "swiglu",
     .signature = "gate_up > h",
     .types = swiglu_types,
     .rules = {"I > I", "S0 > S0", "S1 > S1", "R > R"},
     .gradient = swiglu_gradient,
     .storage = Place::kNew,
     .adds = Adds::kNever,
     .op_class = OpClass::kActivations,
     .cheap = CheapAs::kActivation},
    {.kind = OpKind::kSwiGluGrad,
     .name = "swiglu_grad",
     .signature = "dh gate_up > d_gate_up",
     .types = like_input<1>,
     .rules = {"I I > I", "S0 S0 > S0", "S1 S1 > S1", "P R > P"},
     .gradient = no_gradient,
     .storage = over_input(1),
     .adds = Adds::kNever,
     .op_class = OpClass::kActivations},
    {.kind = OpKind::kGelu,
     .name = "gelu",
     .signature = "x > h",
     .types = like_input<0>,
     .rules = {"I > I", "S0 > S0", "S1 > S1", "R > R"},
     .gradient = gelu_gradient,
     .storage = over_input(0),
     .adds = Adds::kNever,
     .op_class = OpClass::kActivations,
     .cheap = CheapAs::kActivation},
    // Over dh first, where the product before it can do it too.
    {.kind = OpKind::kGeluGrad,
     .name = "gelu_grad",
     .signature = "dh x > dx",
     .types = like_input<1>,
     .rules = {"I I > I", "S0 S0 > S0", "S1 S1 > S1", "P R > P"},
     .gradient = no_gradient,
     .storage = over_input(0, 1),
     .adds = Adds::kNever,
     .op_class = OpClass::kActivations},
    {.kind = OpKind::kAdd,
     .name = "add",
     .signature = "a b > sum",
     .types = add_types,
     .rules = {"I I > I", "S0 S0 > S0", "S1 S1 > S1", "R R > R", "P P > P"},
     .gradient = add_gradient,
     .storage = over_input(1, 0),
     .adds = Adds::kNever,
     .op_class = OpClass::kActivations},
    // Masks depend on the token: nothing that is split by columns.
    {.kind = OpKind::kDropout,
     .name = "dropout",
     .signature = "x > y",
     .types = dropout_types,
     .rules = {"I > I", "S0 > S0"},
     .gradient = dropout_gradient,
     .storage = over_input(0),
     .adds = Adds::kNever,
     .op_class = OpClass::kActivations,
     .kernel = {.numbers = KernelNumbers::kTokens}},
};

}  // namespace tessera::ops
