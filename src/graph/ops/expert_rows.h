// The product of experts' rows with their weights, which training and serving have a kernel each
// for.
#pragma once

#include "graph/ops/common.h"

namespace tessera::ops {

// A row-wise product: rows[source, peer, capacity, K] with weights of K columns (or rows, for the
// gradient) give rows of `out` columns.
inline Types rows_of_width(const Operands& o, int64_t inner, int64_t out) {
  o.want(o.in(0).shape.size() == 4 && o.dim(0, 3) == inner, "inner dimensions differ");
  TensorType type = o.like(0);
  type.shape[3] = out;
  return {type};
}
inline Types expert_linear_types(const Operands& o) {
  return rows_of_width(o, o.dim(1, 2), o.dim(1, 1));
}

constexpr OpRow expert_rows(OpKind kind, const char* name, GradientRule* gradient,
                            ScratchRule* cpu_scratch) {
  return {.kind = kind,
          .name = name,
          .signature = "rows weight counts > rows",
          .types = expert_linear_types,
          .rules = {"I I I > I", "S0 R S0 > S0", "S1 S0 S1 > S1"},
          .gradient = gradient,
          .storage = Place::kNew,
          .adds = Adds::kNever,
          .op_class = OpClass::kProducts,
          .cost = {.product = Product::kExpertRows, .only_filled = true},
          .kernel = {.cpu_scratch = cpu_scratch}};
}

}  // namespace tessera::ops
