// Type inference: shapes by op, placements by the rules of op.cc.
#include <algorithm>
#include <optional>

#include "graph/graph.h"
#include "graph/infer_experts.h"

namespace tessera {
namespace {

class Inference {
 public:
  Inference(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  std::vector<TensorType> run();

 private:
  [[nodiscard]] size_t num_operands() const {
    return node_.inputs.size() - (node_.accumulate ? 1 : 0);
  }
  [[nodiscard]] const TensorType& in(size_t i) const { return graph_.type(node_.inputs[i]); }
  [[nodiscard]] const std::string& in_name(size_t i) const {
    return graph_.value(node_.inputs[i]).name;
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw TypeError(fmt::format("{} '{}': {}", name_of(node_.op), node_.name, why));
  }
  void want(bool ok, const char* what) const {
    if (ok) return;
    std::string shapes;
    for (size_t i = 0; i < num_operands(); ++i) {
      shapes += fmt::format("{}'{}' {}", i > 0 ? ", " : "", in_name(i), to_string(in(i)));
    }
    fail(fmt::format("{} (inputs: {})", what, shapes));
  }

  std::vector<TensorType> shapes() const;
  std::vector<TensorType> like(size_t i) const { return {{in(i).dtype, in(i).shape, {}}}; }
  [[nodiscard]] bool matches(const PlacementRule& rule, Axis axis) const;
  void place(std::vector<TensorType>& outputs) const;
  [[noreturn]] void explain(Axis axis) const;

  TensorType cast_type() const;
  TensorType shift_type() const;
  std::vector<TensorType> views_types() const;
  TensorType pack_type() const;
  std::vector<TensorType> slice_types() const;
  TensorType concat_type() const;
  TensorType metrics_type() const;
  TensorType adamw_type() const;

  const Graph& graph_;
  const Node& node_;
};

std::vector<TensorType> Inference::run() {
  std::vector<TensorType> outputs;
  switch (node_.op) {
    case OpKind::kInput:
    case OpKind::kParameter:
      return {graph_.type(node_.outputs.front())};
    case OpKind::kCast:
      return {cast_type()};
    case OpKind::kShift:
      return {shift_type()};
    case OpKind::kViews:
      return views_types();
    case OpKind::kPack:
      return {pack_type()};
    case OpKind::kSlice:
      return slice_types();
    case OpKind::kConcat:
      return {concat_type()};
    case OpKind::kMetrics:
      return {metrics_type()};
    case OpKind::kAdamW:
      return {adamw_type()};
    default:
      outputs = shapes();
      place(outputs);
  }
  if (node_.accumulate) {
    if (!can_accumulate(node_.op)) fail("cannot add to an existing value");
    if (!(graph_.type(node_.inputs.back()) == outputs.front())) {
      fail(fmt::format("adds {} to '{}', which is {}", to_string(outputs.front()),
                       graph_.value(node_.inputs.back()).name,
                       to_string(graph_.type(node_.inputs.back()))));
    }
  }
  return outputs;
}

std::vector<TensorType> Inference::shapes() const {
  const auto rank2 = [&](size_t i) { want(in(i).shape.size() == 2, "needs matrices"); };
  const auto acc = [&](size_t i) { return accumulate_type(in(i).dtype); };
  const auto grad = [&](size_t i) { return node_.attrs.narrow ? in(i).dtype : acc(i); };
  switch (node_.op) {
    case OpKind::kEmbedding:
      rank2(1);
      want(in(0).dtype == DType::kI32, "needs integer ids");
      return {{in(1).dtype, {in(0).shape[0], in(1).shape[1]}, {}}};
    case OpKind::kRmsNorm:
      rank2(0);
      want(in(1).shape == Shape{in(0).shape[1]}, "the weight must match the width");
      return {{in(0).dtype, in(0).shape, {}}, {acc(0), {in(0).shape[0]}, {}}};
    case OpKind::kAddRmsNorm:
      rank2(0);
      want(in(0).shape == in(1).shape && in(0).dtype == in(1).dtype, "shapes differ");
      want(in(2).shape == Shape{in(0).shape[1]}, "the weight must match the width");
      return {{in(0).dtype, in(0).shape, {}},
              {in(0).dtype, in(0).shape, {}},
              {acc(0), {in(0).shape[0]}, {}}};
    case OpKind::kLinear:
      rank2(0), rank2(1);
      want(in(0).shape[1] == in(1).shape[1], "inner dimensions differ");
      return {{in(0).dtype, {in(0).shape[0], in(1).shape[0]}, {}}};
    case OpKind::kLinearDx:
      rank2(0), rank2(1);
      want(in(0).shape[1] == in(1).shape[0], "inner dimensions differ");
      return {{in(0).dtype, {in(0).shape[0], in(1).shape[1]}, {}}};
    case OpKind::kLinearDw:
      rank2(0), rank2(1);
      want(in(0).shape[0] == in(1).shape[0], "token counts differ");
      return {{grad(0), {in(0).shape[1], in(1).shape[1]}, {}}};
    case OpKind::kAttention:
      return {{in(0).dtype, in(0).shape, {}}, {acc(0), {in(0).shape[0], node_.attrs.heads}, {}}};
    case OpKind::kAttentionGrad:
      return {{in(0).dtype, in(0).shape, {}}, {in(1).dtype, in(1).shape, {}}};
    case OpKind::kAttentionPart:
      return {{acc(0), in(0).shape, {}}, {acc(0), {in(0).shape[0], node_.attrs.heads}, {}}};
    case OpKind::kAttentionGradPart:
      return {{acc(0), in(0).shape, {}}, {acc(1), in(1).shape, {}}};
    case OpKind::kConvert:
      return {{node_.attrs.dtype, in(0).shape, {}}};
    case OpKind::kSwiGlu:
      rank2(0);
      want(in(0).shape[1] % 2 == 0, "needs gate and up");
      return {{in(0).dtype, {in(0).shape[0], in(0).shape[1] / 2}, {}}};
    case OpKind::kAdd:
      want(in(0).shape == in(1).shape && in(0).dtype == in(1).dtype, "shapes differ");
      return like(0);
    case OpKind::kDropout:
      rank2(0);
      return like(0);
    case OpKind::kRope:
    case OpKind::kTieSum:
      return like(0);
    case OpKind::kSwiGluGrad:
      return like(1);
    case OpKind::kRmsNormDx:
      return like(1);
    case OpKind::kRmsNormDw:
      return {{grad(1), {in(1).shape[1]}, {}}};
    case OpKind::kEmbeddingDw:
      return {{grad(1), {node_.attrs.rows, in(1).shape[1]}, {}}};
    case OpKind::kAddBias:
      rank2(0);
      want(in(1).shape == Shape{in(0).shape[1]}, "the bias must match the width");
      return like(0);
    case OpKind::kBiasDw:
      rank2(0);
      return {{grad(0), {in(0).shape[1]}, {}}};
    case OpKind::kLayerNorm:
      rank2(0);
      want(in(1).shape == Shape{in(0).shape[1]} && in(2).shape == in(1).shape,
           "weight and bias must match the width");
      return {{in(0).dtype, in(0).shape, {}}, {acc(0), {in(0).shape[0], 2}, {}}};
    case OpKind::kAddLayerNorm:
      rank2(0);
      want(in(0).shape == in(1).shape && in(0).dtype == in(1).dtype, "shapes differ");
      want(in(2).shape == Shape{in(0).shape[1]} && in(3).shape == in(2).shape,
           "weight and bias must match the width");
      return {{in(0).dtype, in(0).shape, {}},
              {in(0).dtype, in(0).shape, {}},
              {acc(0), {in(0).shape[0], 2}, {}}};
    case OpKind::kLayerNormDx:
      return like(1);
    case OpKind::kLayerNormDw:
      return {{grad(1), {in(1).shape[1]}, {}}};
    case OpKind::kGelu:
      return like(0);
    case OpKind::kGeluGrad:
      return like(1);
    case OpKind::kAddPositions:
      rank2(0), rank2(1);
      want(in(0).shape[1] == in(1).shape[1], "the table must match the width");
      want(node_.attrs.seq_len <= in(1).shape[0], "the table has too few positions");
      return like(0);
    case OpKind::kPositionsDw:
      rank2(0);
      return {{grad(0), {node_.attrs.rows, in(0).shape[1]}, {}}};
    case OpKind::kHeadNorm:
      rank2(0);
      want(in(1).shape == Shape{node_.attrs.head_dim}, "the weight must match a head");
      want(node_.attrs.heads * node_.attrs.head_dim <= in(0).shape[1], "the heads do not fit");
      return {{in(0).dtype, in(0).shape, {}}, {acc(0), {in(0).shape[0], node_.attrs.heads}, {}}};
    case OpKind::kHeadNormDx:
      return like(1);
    case OpKind::kHeadNormDw:
      return {{grad(1), {node_.attrs.head_dim}, {}}};
    case OpKind::kCrossEntropyStats:
      return {{acc(0), {node_.attrs.parts, in(0).shape[0], 3}, {}}};
    case OpKind::kCrossEntropyGrad:
      return like(0);
    case OpKind::kCrossEntropyLoss:
    case OpKind::kSumSquares:
      return {{DType::kF64, {1}, {}}};
    default:
      break;
  }
  ExpertShapes experts = infer_expert_shapes(graph_, node_);
  if (experts.types.empty()) want(false, experts.problem);
  return std::move(experts.types);
}

bool applies(const PlacementRule& rule, Axis axis) { return rule.axes.contains(axis); }

bool Inference::matches(const PlacementRule& rule, Axis axis) const {
  if (!applies(rule, axis) || rule.inputs.size() != num_operands()) return false;
  for (size_t i = 0; i < num_operands(); ++i) {
    if (!(rule.inputs[i] == in(i).on(axis))) return false;
  }
  return true;
}

// Of several rules that match the last one holds.
void Inference::place(std::vector<TensorType>& outputs) const {
  const std::span<const PlacementRule> rules = placement_rules(node_.op);
  for (const Axis axis : kAllAxes) {
    const auto match = std::find_if(rules.rbegin(), rules.rend(),
                                    [&](const PlacementRule& rule) { return matches(rule, axis); });
    if (match == rules.rend()) explain(axis);
    for (size_t i = 0; i < outputs.size(); ++i) {
      outputs[i].placements[index_of(axis)] = match->outputs[i];
    }
  }
}

// Names the tensor whose cast is missing, doubled or misplaced: the one that alone keeps a rule
// from matching.
void Inference::explain(Axis axis) const {
  std::string have;
  for (size_t i = 0; i < num_operands(); ++i) {
    have += fmt::format("{}'{}' is {}", i > 0 ? ", " : "", in_name(i), to_string(in(i).on(axis)));
  }
  std::string hint;
  for (const PlacementRule& rule : placement_rules(node_.op)) {
    if (!applies(rule, axis) || rule.inputs.size() != num_operands()) continue;
    std::optional<size_t> odd;
    size_t wrong = 0;
    for (size_t i = 0; i < num_operands(); ++i) {
      if (rule.inputs[i] == in(i).on(axis)) continue;
      odd = i;
      ++wrong;
    }
    if (wrong != 1) continue;
    hint += fmt::format("; '{}' would have to be {} on {}", in_name(*odd),
                        to_string(rule.inputs[*odd]), name_of(axis));
  }
  fail(
      fmt::format("on axis {} {}, which this op does not take: a collective is missing, doubled or "
                  "misplaced{}",
                  name_of(axis), have, hint));
}

TensorType Inference::cast_type() const {
  TensorType type = in(0);
  for (const Axis axis : kAllAxes) {
    if (!node_.attrs.axes.contains(axis)) continue;
    const Placement from = type.on(axis);
    if (!is_cast(from, node_.attrs.to)) {
      fail(
          fmt::format("'{}' is {} on axis {} and cannot be cast to {}: a doubled or misplaced "
                      "collective",
                      in_name(0), to_string(from), name_of(axis), to_string(node_.attrs.to)));
    }
    type.placements[index_of(axis)] = node_.attrs.to;
  }
  return type;
}

// The parts of a split value change places; of any other there is nothing to exchange.
TensorType Inference::shift_type() const {
  for (const Axis axis : kAllAxes) {
    if (!node_.attrs.axes.contains(axis)) continue;
    if (in(0).on(axis).kind != Placement::Kind::kSplit) {
      fail(fmt::format("'{}' is {} on axis {}, but only parts of a split value can be passed on",
                       in_name(0), to_string(in(0).on(axis)), name_of(axis)));
    }
  }
  return in(0);
}

// A bucket is flat; the weights in it keep the bucket's placement, a split becoming the weight's
// own.
std::vector<TensorType> Inference::views_types() const {
  for (const TensorType& view : node_.attrs.view_types) {
    for (const Axis axis : kAllAxes) {
      const Placement bucket = in(0).on(axis);
      const bool both_split =
          bucket.kind == Placement::Kind::kSplit && view.on(axis).kind == Placement::Kind::kSplit;
      if (!both_split && !(bucket == view.on(axis))) {
        fail(
            fmt::format("bucket '{}' is {} on axis {} but a weight in it is used as {}: a "
                        "collective is missing or misplaced",
                        in_name(0), to_string(bucket), name_of(axis), to_string(view.on(axis))));
      }
    }
  }
  return node_.attrs.view_types;
}

TensorType Inference::pack_type() const {
  TensorType type = node_.attrs.view_types.front();  // of the bucket's gradient
  for (const Axis axis : kAllAxes) {
    for (size_t i = 0; i < num_operands(); ++i) {
      const Placement p = in(i).on(axis);
      const bool both_split =
          p.kind == Placement::Kind::kSplit && type.on(axis).kind == Placement::Kind::kSplit;
      if (!both_split && !(p == type.on(axis))) {
        fail(fmt::format("gradient '{}' is {} on axis {} but its bucket needs {}", in_name(i),
                         to_string(p), name_of(axis), to_string(type.on(axis))));
      }
    }
  }
  return type;
}

std::vector<TensorType> Inference::slice_types() const {
  std::vector<TensorType> types;
  int64_t sum = 0;
  for (const int64_t length : node_.attrs.lengths) {
    TensorType type = in(0);
    type.shape[0] = length;
    sum += length;
    types.push_back(std::move(type));
  }
  want(sum == in(0).shape[0], "chunks do not add up");
  return types;
}

TensorType Inference::concat_type() const {
  TensorType type = in(0);
  type.shape[0] = 0;
  for (size_t i = 0; i < num_operands(); ++i) {
    type.shape[0] += in(i).shape[0];
    want(in(i).placements == type.placements, "chunks are placed differently");
  }
  return type;
}

// loss, sums of squares > a vector that is a partial sum over every axis.
TensorType Inference::metrics_type() const {
  TensorType type{DType::kF64, {kMetricsHead + node_.attrs.parts}, {}};
  type.placements.fill(partial());
  return type;
}

TensorType Inference::adamw_type() const {
  const TensorType& weight = in(0);
  const TensorType& gradient = in(1);
  for (const Axis axis : kAllAxes) {
    if (gradient.on(axis).kind == Placement::Kind::kPartial) {
      fail(
          fmt::format("gradient '{}' is still a partial sum (P) on axis {}: its all-reduce or "
                      "reduce-scatter is missing",
                      in_name(1), name_of(axis)));
    }
    if (!(gradient.on(axis) == weight.on(axis))) {
      fail(fmt::format("gradient '{}' is {} on axis {} but weight '{}' is {}", in_name(1),
                       to_string(gradient.on(axis)), name_of(axis), in_name(0),
                       to_string(weight.on(axis))));
    }
    const Placement metrics = in(2).on(axis);
    if (!(metrics == invariant())) {
      fail(
          fmt::format("'{}' is {} on axis {} but every rank must clip by the same norm (I): its "
                      "all-reduce is missing or misplaced",
                      in_name(2), to_string(metrics), name_of(axis)));
    }
  }
  want(gradient.shape == weight.shape, "gradient and weight differ in shape");
  return weight;
}

}  // namespace

std::vector<TensorType> infer_types(const Graph& graph, const Node& node) {
  return Inference(graph, node).run();
}

}  // namespace tessera
