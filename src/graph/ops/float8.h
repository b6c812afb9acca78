// Products of numbers of 8 bits. A scale covers tiles of a matrix (base/float8.h) and follows from
// the largest size in them, its amax; that of what ranks share is M until a cast makes it one.
#pragma once

#include "graph/ops/common.h"

namespace tessera::ops {

// Where the amax of a matrix is: with the tiles that are split as the matrix is. Ranks with other
// samples have scales of their own; all others that share a tile must agree on it.
inline Placement placement_of_amax(const Operands& o, Axis axis, const Scaling& scaling) {
  const Placement x = o.in(0).on(axis);
  if (x == split(0)) {
    return scaling.rows > 0 || sample_axes().contains(axis) ? split(0) : maximum();
  }
  if (x == split(1)) return scaling.cols > 0 ? split(1) : maximum();
  if (x == partial() || x == maximum()) {
    o.fail(fmt::format("'{}' is {} on axis {}: its largest value is not known before its cast",
                       o.name(0), to_string(x), name_of(axis)));
  }
  return x;
}
inline Types amax_types(const Operands& o) {
  o.want_matrix(0);
  o.want(o.attrs().scales.size() == 2, "needs a matrix of scales");
  TensorType type{DType::kF32, o.attrs().scales, {}};
  for (const Axis axis : kAllAxes) {
    type.placements[index_of(axis)] = placement_of_amax(o, axis, o.attrs().scaling[0]);
  }
  return {type};
}
inline Types quantise_types(const Operands& o) {
  o.want_matrix(0), o.want_matrix(1);
  return {{DType::kU8, o.in(0).shape, {}}};
}

inline void want_codes(const Operands& o) {
  o.want(o.in(0).dtype == DType::kU8 && o.in(2).dtype == DType::kU8, "needs codes of 8 bits");
  o.want(o.in(1).dtype == DType::kF32 && o.in(3).dtype == DType::kF32, "needs scales in f32");
  for (size_t i = 0; i < 4; ++i) o.want_matrix(i);
}
inline Types fp8_linear_types(const Operands& o) {
  want_codes(o);
  o.want(o.dim(0, 1) == o.dim(2, 1), "inner dimensions differ");
  return {{o.attrs().dtype, {o.dim(0, 0), o.dim(2, 0)}, {}}};
}
inline Types fp8_linear_dx_types(const Operands& o) {
  want_codes(o);
  o.want(o.dim(0, 1) == o.dim(2, 0), "inner dimensions differ");
  return {{o.attrs().dtype, {o.dim(0, 0), o.dim(2, 1)}, {}}};
}
inline Types fp8_linear_dw_types(const Operands& o) {
  want_codes(o);
  o.want(o.dim(0, 0) == o.dim(2, 0), "token counts differ");
  const DType stored = o.attrs().dtype;
  return {{o.attrs().narrow ? stored : accumulate_type(stored), {o.dim(0, 1), o.dim(2, 1)}, {}}};
}

inline int64_t cpu_amax(const KernelSizes& s) { return workspace::amax(s.threads); }
inline int64_t cpu_fp8_linear(const KernelSizes& s) {
  return workspace::fp8_linear(s.dtype, s.in(0)[0], s.in(2)[0], s.in(0)[1], s.threads);
}
inline int64_t cpu_fp8_linear_dx(const KernelSizes& s) {
  return workspace::fp8_linear_dx(s.dtype, s.in(0)[0], s.in(2)[0], s.in(2)[1], s.threads);
}
inline int64_t cpu_fp8_linear_dw(const KernelSizes& s) {
  return workspace::fp8_linear_dw(s.dtype, s.in(0)[0], s.in(0)[1], s.in(2)[1], s.threads);
}

// Placements of a matrix, its scales, the other matrix and its scales: those of the product of both
// matrices, with the scales that are whole, or split as their matrix is.
constexpr OpRow fp8_product(OpKind kind, const char* name, const char* signature, TypeRule* types,
                            RuleTexts rules, Product product, ScratchRule* scratch) {
  return {.kind = kind,
          .name = name,
          .signature = signature,
          .types = types,
          .rules = rules,
          .gradient = no_gradient,
          .storage = Place::kNew,
          .adds = kind == OpKind::kFp8Linear ? Adds::kNever : Adds::kToOutput,
          .op_class = OpClass::kProducts,
          .cost = {.product = product},
          .kernel = {.cpu_scratch = scratch}};
}

inline constexpr OpRow kFloat8Ops[] = {
    {.kind = OpKind::kAmax,
     .name = "amax",
     .signature = "x > amax",
     .types = amax_types,
     .rules = RuleTexts::none(),
     .gradient = no_gradient,
     .storage = Place::kNew,
     .adds = Adds::kNever,
     .op_class = OpClass::kActivations,
     .kernel = {.cpu_scratch = cpu_amax}},
    {.kind = OpKind::kQuantise,
     .name = "quantise",
     .signature = "x amax > codes",
     .types = quantise_types,
     .rules = {"I I > I", "R R > R", "S0 S0 > S0", "S0 I > S0", "S1 S1 > S1", "S1 I > S1"},
     .gradient = no_gradient,
     .storage = Place::kNew,
     .adds = Adds::kNever,
     .op_class = OpClass::kActivations},
    fp8_product(OpKind::kFp8Linear, "fp8_linear", "x x_amax weight weight_amax > y",
                fp8_linear_types,
                {"I I I I > I", "S0 S0 R R > S0", "S0 I R R > S0", "R R S0 S0 > S1",
                 "R R S0 I > S1", "S1 S1 S1 S1 > P", "S1 I S1 I > P"},
                Product::kRows, cpu_fp8_linear),
    fp8_product(OpKind::kFp8LinearDx, "fp8_linear_dx", "dy dy_amax weight weight_amax > dx",
                fp8_linear_dx_types,
                {"I I I I > I", "S0 S0 R R > S0", "S0 I R R > S0", "S1 S1 S0 S0 > P",
                 "S1 I S0 I > P", "R R S1 S1 > S1", "R R S1 I > S1"},
                Product::kRows, cpu_fp8_linear_dx),
    fp8_product(OpKind::kFp8LinearDw, "fp8_linear_dw", "dy dy_amax x x_amax > dw",
                fp8_linear_dw_types,
                {"I I I I > I", "S0 S0 S0 S0 > P", "S0 I S0 I > P", "S1 S1 R R > S0",
                 "S1 I R R > S0", "R R S1 S1 > S1", "R R S1 I > S1"},
                Product::kWeights, cpu_fp8_linear_dw),
};

}  // namespace tessera::ops
