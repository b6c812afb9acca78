// Sources and structure, which compute nothing, and casts. Their type rules give placements too.
#pragma once

#include "graph/ops/common.h"

namespace tessera::ops {

inline Types given_type(const Operands& o) { return {o.graph().type(o.node().outputs.front())}; }

inline bool agree(Placement a, Placement b) {
  const bool both_split = a.kind == Placement::Kind::kSplit && b.kind == Placement::Kind::kSplit;
  return both_split || a == b;
}

// A bucket is flat; the weights in it keep the bucket's placement, a split becoming the weight's
// own.
inline Types views_types(const Operands& o) {
  for (const TensorType& view : o.attrs().view_types) {
    for (const Axis axis : kAllAxes) {
      if (agree(o.in(0).on(axis), view.on(axis))) continue;
      o.fail(fmt::format(
          "bucket '{}' is {} on axis {} but a weight in it is used as {}: a "
          "collective is missing or misplaced",
          o.name(0), to_string(o.in(0).on(axis)), name_of(axis), to_string(view.on(axis))));
    }
  }
  return o.attrs().view_types;
}

inline Types pack_types(const Operands& o) {
  const TensorType& bucket = o.attrs().view_types.front();  // of the bucket's gradient
  for (const Axis axis : kAllAxes) {
    for (size_t i = 0; i < o.size(); ++i) {
      if (agree(o.in(i).on(axis), bucket.on(axis))) continue;
      o.fail(fmt::format("gradient '{}' is {} on axis {} but its bucket needs {}", o.name(i),
                         to_string(o.in(i).on(axis)), name_of(axis), to_string(bucket.on(axis))));
    }
  }
  return {bucket};
}

inline Types slice_types(const Operands& o) {
  Types types;
  int64_t sum = o.attrs().rows;  // that no chunk takes
  for (const int64_t length : o.attrs().lengths) {
    TensorType type = o.in(0);
    type.shape[0] = length;
    sum += length;
    types.push_back(std::move(type));
  }
  o.want(sum == o.dim(0, 0), "chunks do not add up");
  return types;
}

inline Types concat_types(const Operands& o) {
  TensorType type = o.in(0);
  type.shape[0] = o.attrs().rows;
  for (size_t i = 0; i < o.size(); ++i) {
    type.shape[0] += o.dim(i, 0);
    o.want(o.in(i).placements == type.placements, "chunks are placed differently");
  }
  return {type};
}

inline Types cast_types(const Operands& o) {
  TensorType type = o.in(0);
  for (const Axis axis : kAllAxes) {
    if (!o.attrs().axes.contains(axis)) continue;
    const Placement from = type.on(axis);
    if (!is_cast(from, o.attrs().to)) {
      o.fail(
          fmt::format("'{}' is {} on axis {} and cannot be cast to {}: a doubled or misplaced "
                      "collective",
                      o.name(0), to_string(from), name_of(axis), to_string(o.attrs().to)));
    }
    type.placements[index_of(axis)] = o.attrs().to;
  }
  return {type};
}

// The parts of a split value change places; of any other there is nothing to exchange.
inline Types shift_types(const Operands& o) {
  for (const Axis axis : kAllAxes) {
    if (!o.attrs().axes.contains(axis)) continue;
    if (o.in(0).on(axis).kind != Placement::Kind::kSplit) {
      o.fail(fmt::format("'{}' is {} on axis {}, but only parts of a split value can be passed on",
                         o.name(0), to_string(o.in(0).on(axis)), name_of(axis)));
    }
  }
  return {o.in(0)};
}

inline Types convert_types(const Operands& o) { return {{o.attrs().dtype, o.in(0).shape, {}}}; }

inline void views_gradient(Gradients& g, const Node& node, ValueId) {
  std::vector<ValueId> pieces;
  for (const ValueId w : node.outputs) {
    TESSERA_CHECK(g.of(w) != kNoValue, "weight '{}' is never used", g.graph().value(w).name);
    pieces.push_back(g.of(w));
  }
  TensorType type = g.graph().type(node.inputs[0]);
  if (!g.narrow()) type.dtype = accumulate_type(type.dtype);
  for (const Axis axis : kAllAxes) type.placements[index_of(axis)] = dual(type.on(axis));
  Attrs attrs;
  attrs.bucket = node.attrs.bucket;
  attrs.view_types = {type};
  g.contribute(node.inputs[0], OpKind::kPack, pieces, attrs, with_pass(node.tag, Pass::kReduce));
}

inline void slice_gradient(Gradients& g, const Node& node, ValueId) {
  if (g.graph().type(node.inputs[0]).dtype == DType::kI32) return;  // labels have no gradient
  std::vector<ValueId> pieces;
  for (const ValueId chunk : node.outputs) pieces.push_back(g.of(chunk));
  Attrs attrs;
  attrs.rows = node.attrs.rows;
  g.contribute(node.inputs[0], OpKind::kConcat, pieces, attrs, input_grad(node));
}

// The gradient of a cast from a to b is the cast from dual(b) to dual(a): one for all axes that
// come from the same placement.
inline void cast_gradient(Gradients& g, const Node& node, ValueId dy) {
  const ValueId x = node.inputs[0];
  const Tag tag = with_pass(node.tag, node.attrs.bucket >= 0 ? Pass::kReduce : Pass::kInputGrad);
  std::vector<Attrs> casts;
  for (const Axis axis : kAllAxes) {
    const Placement to = dual(g.graph().type(x).on(axis));
    if (!node.attrs.axes.contains(axis) || dual(node.attrs.to) == to) continue;
    auto cast =
        std::find_if(casts.begin(), casts.end(), [&](const Attrs& c) { return c.to == to; });
    if (cast == casts.end()) {
      cast = casts.emplace(casts.end());
      cast->to = to;
      cast->bucket = node.attrs.bucket;
      cast->column_groups = node.attrs.column_groups;
    }
    cast->axes = cast->axes.with(axis);
  }
  for (const Attrs& cast : casts) dy = g.add(OpKind::kCast, {dy}, g.name(x), cast, tag);
  g.contribute_value(x, dy, tag);
}

// What computes nothing: placements are part of its types, and at most it becomes zeros.
constexpr OpRow structure(OpKind kind, const char* name, const char* signature, TypeRule* types,
                          Gradient gradient, Place place, Lowered lowered = Lowered::kNothing) {
  return {.kind = kind,
          .name = name,
          .signature = signature,
          .types = types,
          .rules = RuleTexts::none(),
          .gradient = gradient,
          .storage = place,
          .adds = Adds::kNever,
          .op_class = OpClass::kMovement,
          .kernel = {.lowered = lowered}};
}

inline constexpr OpRow kStructureOps[] = {
    structure(OpKind::kInput, "input", "> value", given_type, ends_here, Place::kElsewhere),
    structure(OpKind::kParameter, "parameter", "> bucket", given_type, ends_here,
              Place::kElsewhere),
    structure(OpKind::kViews, "views", "bucket > weights...", views_types,
              {views_gradient, Gradient::Needs::kNothing}, Place::kWeights),
    structure(OpKind::kPack, "pack", "gradients... > bucket", pack_types, no_gradient,
              Place::kElsewhere, Lowered::kPack),
    structure(OpKind::kSlice, "slice", "tokens > chunks...", slice_types,
              {slice_gradient, Gradient::Needs::kNothing}, Place::kChunks),
    structure(OpKind::kConcat, "concat", "chunks... > tokens", concat_types, no_gradient,
              Place::kElsewhere),
    {.kind = OpKind::kCast,
     .name = "cast",
     .signature = "x > y",
     .types = cast_types,
     .rules = RuleTexts::none(),
     .gradient = cast_gradient,
     .storage = Place::kCast,
     .adds = Adds::kNever,
     .op_class = OpClass::kCommunication,
     .kernel = {.lowered = Lowered::kCast},
     .cheap = CheapAs::kLocalCast},
    {.kind = OpKind::kShift,  // as an instruction it is a cast
     .name = "shift",
     .signature = "x > y",
     .types = shift_types,
     .rules = RuleTexts::none(),
     .gradient = no_gradient,
     .storage = Place::kNew,
     .adds = Adds::kNever,
     .op_class = OpClass::kMovement,
     .kernel = {.lowered = Lowered::kCast}},
    {.kind = OpKind::kConvert,
     .name = "convert",
     .signature = "x > y",
     .types = convert_types,
     .rules = {"I > I", "R > R", "P > P", "S0 > S0", "S1 > S1"},
     .gradient = no_gradient,
     .storage = Place::kNew,
     .adds = Adds::kNever,
     .op_class = OpClass::kMovement},
};

}  // namespace tessera::ops
