// The optimizer step.
#pragma once

#include "base/step_params.h"
#include "graph/ops/common.h"

namespace tessera::ops {

// A vector that is a partial sum over every axis.
inline Types metrics_types(const Operands& o) {
  TensorType type{DType::kF64, {kMetricsHead + o.attrs().parts}, {}};
  type.placements.fill(partial());
  return {type};
}

inline Types updated_types(const Operands& o) {
  const TensorType& weight = o.in(0);
  const TensorType& gradient = o.in(1);
  for (const Axis axis : kAllAxes) {
    if (gradient.on(axis).kind == Placement::Kind::kPartial) {
      o.fail(
          fmt::format("gradient '{}' is still a partial sum (P) on axis {}: its all-reduce or "
                      "reduce-scatter is missing",
                      o.name(1), name_of(axis)));
    }
    if (!(gradient.on(axis) == weight.on(axis))) {
      o.fail(fmt::format("gradient '{}' is {} on axis {} but weight '{}' is {}", o.name(1),
                         to_string(gradient.on(axis)), name_of(axis), o.name(0),
                         to_string(weight.on(axis))));
    }
    const Placement metrics = o.in(2).on(axis);
    if (!(metrics == invariant())) {
      o.fail(
          fmt::format("'{}' is {} on axis {} but every rank must clip by the same norm (I): its "
                      "all-reduce is missing or misplaced",
                      o.name(2), to_string(metrics), name_of(axis)));
    }
  }
  o.want(gradient.shape == weight.shape, "gradient and weight differ in shape");
  return {weight};
}

inline int64_t elements_of(const KernelSizes& s) {
  int64_t elements = 0;
  for (const Shape* shape : s.inputs) elements += numel(*shape);
  return elements;
}
inline int64_t cpu_sum_squares(const KernelSizes& s) { return workspace::sum_squares(s.threads); }
inline int64_t gpu_sum_squares(const KernelSizes& s) {
  return workspace::cuda::sum_squares(elements_of(s), static_cast<int64_t>(s.inputs.size()));
}
inline int64_t gpu_update(const KernelSizes&) { return workspace::cuda::kAdamFactorsBytes; }

inline constexpr OpRow kUpdateOps[] = {
    // Each element counts once, on its owner, so the result is a sum over every axis.
    {.kind = OpKind::kSumSquares,
     .name = "sum_squares",
     .signature = "gradient > sum",
     .types = one_number,
     .rules = {"I > P", "S0 > P"},
     .gradient = no_gradient,
     .storage = Place::kMetrics,
     .adds = Adds::kNever,
     .op_class = OpClass::kOptimizer,
     .cost = {.bytes = BytesMoved::kOneSumEach},
     .kernel = {.lowered = Lowered::kUpdate,
                .cpu_scratch = cpu_sum_squares,
                .gpu_scratch = gpu_sum_squares}},
    {.kind = OpKind::kMetrics,
     .name = "metrics",
     .signature = "loss [sums...] > metrics",
     .types = metrics_types,
     .rules = RuleTexts::none(),
     .gradient = no_gradient,
     .storage = Place::kMetrics,
     .adds = Adds::kNever,
     .op_class = OpClass::kOptimizer,
     .kernel = {.lowered = Lowered::kUpdate}},
    {.kind = OpKind::kAdamW,
     .name = "adamw",
     .signature = "weight gradient metrics > weight",
     .types = updated_types,
     .rules = RuleTexts::none(),
     .gradient = no_gradient,
     .storage = Place::kFirstInput,
     .adds = Adds::kNever,
     .op_class = OpClass::kOptimizer,
     .cost = {.bytes = BytesMoved::kOptimizer},
     .kernel = {.lowered = Lowered::kUpdate, .gpu_scratch = gpu_update}},
    {.kind = OpKind::kSgd,
     .name = "sgd",
     .signature = "weight gradient metrics > weight",
     .types = updated_types,
     .rules = RuleTexts::none(),
     .gradient = no_gradient,
     .storage = Place::kFirstInput,
     .adds = Adds::kNever,
     .op_class = OpClass::kOptimizer,
     .cost = {.bytes = BytesMoved::kOptimizer},
     .kernel = {.lowered = Lowered::kUpdate, .gpu_scratch = gpu_update}},
    {.kind = OpKind::kTieSum,
     .name = "tie_sum",
     .signature = "gradient > sum",
     .types = like_input<0>,
     .rules = {"I > I", "S0 > S0"},
     .gradient = no_gradient,
     .storage = Place::kGradient,
     .adds = Adds::kNever,
     .op_class = OpClass::kCommunication,
     .kernel = {.lowered = Lowered::kUpdate}},
    only_lowered(OpKind::kCountTokens, "count_tokens", "labels > counts", OpClass::kOptimizer),
    only_lowered(OpKind::kJoinLanes, "join_lanes", "sums > metrics", OpClass::kOptimizer),
};

}  // namespace tessera::ops
