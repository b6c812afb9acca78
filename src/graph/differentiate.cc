#include "graph/differentiate.h"

#include <algorithm>
#include <vector>

namespace tessera {
namespace {

class Differentiator {
 public:
  Differentiator(Graph& graph, bool narrow)
      : graph_(graph), narrow_(narrow), num_forward_(graph.nodes().size()) {}

  std::map<ValueId, ValueId> run();

 private:
  [[nodiscard]] std::vector<size_t> visit_order() const;
  void visit(const Node& node);
  void visit_linear(const Node& node, ValueId dy);
  void visit_rms_norm(const Node& node, ValueId dy);
  void visit_layer_norm(const Node& node, ValueId dy);
  void visit_head_norm(const Node& node, ValueId dy);
  void visit_positions(const Node& node, ValueId dy);
  void visit_cast(const Node& node, ValueId dy);
  void visit_views(const Node& node);
  void visit_slice(const Node& node);
  void visit_expert_op(const Node& node, ValueId dy);

  [[nodiscard]] ValueId grad(ValueId v) const {
    const auto found = grads_.find(v);
    return found == grads_.end() ? kNoValue : found->second;
  }
  [[nodiscard]] std::string grad_name(ValueId v) const {
    return fmt::format("d({})", graph_.value(v).name);
  }

  // The gradient of `of` gets the output of `op`, added to what is there already.
  void contribute(ValueId of, OpKind op, std::vector<ValueId> inputs, const Attrs& attrs, Tag tag);
  void contribute_value(ValueId of, ValueId dy, Tag tag);
  // As contribute; `op` makes a weight gradient, `tag` is that of the forward node.
  void contribute_weight(ValueId of, OpKind op, std::vector<ValueId> inputs, Attrs attrs, Tag tag);

  Graph& graph_;
  bool narrow_;
  size_t num_forward_;
  std::map<ValueId, ValueId> grads_;
};

Tag with_pass(Tag tag, Pass pass) {
  tag.pass = pass;
  return tag;
}

std::vector<size_t> Differentiator::visit_order() const {
  const std::vector<Node>& nodes = graph_.nodes();
  std::vector<size_t> order;
  for (size_t end = num_forward_; end > 0;) {
    if (nodes[end - 1].tag.chunk < 0) {
      order.push_back(--end);
      continue;
    }
    size_t begin = end;
    while (begin > 0 && nodes[begin - 1].tag.chunk >= 0) --begin;
    for (size_t first = begin; first < end;) {
      size_t last = first;
      while (last < end && nodes[last].tag.chunk == nodes[first].tag.chunk) ++last;
      for (size_t i = last; i > first; --i) order.push_back(i - 1);
      first = last;
    }
    end = begin;
  }
  return order;
}

void Differentiator::contribute(ValueId of, OpKind op, std::vector<ValueId> inputs,
                                const Attrs& attrs, Tag tag) {
  const ValueId before = grad(of);
  if (before == kNoValue) {
    grads_[of] = graph_.add_one(op, inputs, grad_name(of), attrs, tag);
  } else if (can_accumulate(op)) {
    inputs.push_back(before);
    grads_[of] = graph_.add_one(op, inputs, grad_name(of), attrs, tag, /*accumulate=*/true);
  } else {
    const ValueId extra = graph_.add_one(op, inputs, grad_name(of), attrs, tag);
    grads_[of] = graph_.add_one(OpKind::kAdd, {before, extra}, grad_name(of), {}, tag);
  }
}

void Differentiator::contribute_value(ValueId of, ValueId dy, Tag tag) {
  const ValueId before = grad(of);
  grads_[of] =
      before == kNoValue ? dy : graph_.add_one(OpKind::kAdd, {before, dy}, grad_name(of), {}, tag);
}

void Differentiator::contribute_weight(ValueId of, OpKind op, std::vector<ValueId> inputs,
                                       Attrs attrs, Tag tag) {
  attrs.narrow = narrow_;
  contribute(of, op, std::move(inputs), attrs, with_pass(tag, Pass::kWeightGrad));
}

void Differentiator::visit_linear(const Node& node, ValueId dy) {
  const ValueId x = node.inputs[0];
  const ValueId w = node.inputs[1];
  contribute(x, OpKind::kLinearDx, {dy, w}, {}, with_pass(node.tag, Pass::kInputGrad));
  contribute_weight(w, OpKind::kLinearDw, {dy, x}, {}, node.tag);
}

void Differentiator::visit_rms_norm(const Node& node, ValueId dy) {
  const ValueId x = node.inputs[0];
  const ValueId w = node.inputs[1];
  const ValueId rstd = node.outputs[1];
  contribute(x, OpKind::kRmsNormDx, {dy, x, w, rstd}, node.attrs,
             with_pass(node.tag, Pass::kInputGrad));
  contribute_weight(w, OpKind::kRmsNormDw, {dy, x, rstd}, {}, node.tag);
}

void Differentiator::visit_layer_norm(const Node& node, ValueId dy) {
  const ValueId x = node.inputs[0];
  const ValueId w = node.inputs[1];
  const ValueId b = node.inputs[2];
  const ValueId stats = node.outputs[1];
  contribute(x, OpKind::kLayerNormDx, {dy, x, w, stats}, node.attrs,
             with_pass(node.tag, Pass::kInputGrad));
  contribute_weight(w, OpKind::kLayerNormDw, {dy, x, stats}, {}, node.tag);
  contribute_weight(b, OpKind::kBiasDw, {dy}, {}, node.tag);
}

void Differentiator::visit_head_norm(const Node& node, ValueId dy) {
  const ValueId x = node.inputs[0];
  const ValueId w = node.inputs[1];
  const ValueId rstd = node.outputs[1];
  contribute(x, OpKind::kHeadNormDx, {dy, x, w, rstd}, node.attrs,
             with_pass(node.tag, Pass::kInputGrad));
  contribute_weight(w, OpKind::kHeadNormDw, {dy, x, rstd}, node.attrs, node.tag);
}

void Differentiator::visit_positions(const Node& node, ValueId dy) {
  const ValueId table = node.inputs[1];
  Attrs attrs = node.attrs;
  attrs.rows = graph_.type(table).shape[0];
  contribute_value(node.inputs[0], dy, with_pass(node.tag, Pass::kInputGrad));
  contribute_weight(table, OpKind::kPositionsDw, {dy}, attrs, node.tag);
}

// The gradient of a cast from a to b is the cast from dual(b) to dual(a): one for all axes that
// come from the same placement.
void Differentiator::visit_cast(const Node& node, ValueId dy) {
  const ValueId x = node.inputs[0];
  const Pass pass = node.attrs.bucket >= 0 ? Pass::kReduce : Pass::kInputGrad;
  std::vector<Attrs> casts;
  for (const Axis axis : kAllAxes) {
    const Placement to = dual(graph_.type(x).on(axis));
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
  for (const Attrs& cast : casts) {
    dy = graph_.add_one(OpKind::kCast, {dy}, grad_name(x), cast, with_pass(node.tag, pass));
  }
  contribute_value(x, dy, with_pass(node.tag, pass));
}

void Differentiator::visit_views(const Node& node) {
  std::vector<ValueId> pieces;
  for (const ValueId w : node.outputs) {
    TESSERA_CHECK(grad(w) != kNoValue, "weight '{}' is never used", graph_.value(w).name);
    pieces.push_back(grad(w));
  }
  TensorType type = graph_.type(node.inputs[0]);
  if (!narrow_) type.dtype = accumulate_type(type.dtype);
  for (const Axis axis : kAllAxes) type.placements[index_of(axis)] = dual(type.on(axis));
  Attrs attrs;
  attrs.bucket = node.attrs.bucket;
  attrs.view_types = {type};
  contribute(node.inputs[0], OpKind::kPack, pieces, attrs, with_pass(node.tag, Pass::kReduce));
}

void Differentiator::visit_slice(const Node& node) {
  if (graph_.type(node.inputs[0]).dtype == DType::kI32) return;  // labels have no gradient
  std::vector<ValueId> pieces;
  for (const ValueId chunk : node.outputs) pieces.push_back(grad(chunk));
  contribute(node.inputs[0], OpKind::kConcat, pieces, {}, with_pass(node.tag, Pass::kInputGrad));
}

// Choices (ids, counts, slots) are integers and carry no gradient.
void Differentiator::visit_expert_op(const Node& node, ValueId dy) {
  const Tag input_grad = with_pass(node.tag, Pass::kInputGrad);
  const ValueId first = node.inputs[0];
  switch (node.op) {
    case OpKind::kRouter:
      return contribute(first, OpKind::kRouterGrad, {dy, node.outputs[0], node.outputs[1]},
                        node.attrs, input_grad);
    case OpKind::kRouterStats:
      if (node.accumulate) contribute_value(node.inputs.back(), dy, input_grad);
      return contribute(first, OpKind::kRouterStatsGrad, {first, dy}, node.attrs, input_grad);
    case OpKind::kDispatch:
      return contribute(first, OpKind::kDispatchGrad, {dy, node.outputs[2]}, node.attrs,
                        input_grad);
    case OpKind::kExpertLinear:
      contribute(first, OpKind::kExpertLinearDx, {dy, node.inputs[1], node.inputs[2]}, node.attrs,
                 input_grad);
      return contribute_weight(node.inputs[1], OpKind::kExpertLinearDw, {dy, first, node.inputs[2]},
                               node.attrs, node.tag);
    case OpKind::kExpertSwiGlu:
      return contribute(first, OpKind::kExpertSwiGluGrad, {dy, first, node.inputs[1]}, node.attrs,
                        input_grad);
    case OpKind::kCombine: {
      const std::vector<ValueId> both =
          graph_.add(OpKind::kCombineGrad, {dy, first, node.inputs[1], node.inputs[2]},
                     {grad_name(first), grad_name(node.inputs[2])}, node.attrs, input_grad);
      contribute_value(first, both[0], input_grad);
      return contribute_value(node.inputs[2], both[1], input_grad);
    }
    default:  // kBalanceTotals adds a column that nothing depends on
      return contribute_value(first, dy, input_grad);
  }
}

void Differentiator::visit(const Node& node) {
  const Tag input_grad = with_pass(node.tag, Pass::kInputGrad);
  switch (node.op) {
    case OpKind::kViews:
      return visit_views(node);
    case OpKind::kSlice:
      return visit_slice(node);
    case OpKind::kCrossEntropyLoss:
      // inputs: stats, labels, logits. The statistics carry no gradient of their own.
      return contribute(node.inputs[2], OpKind::kCrossEntropyGrad,
                        {node.inputs[2], node.inputs[0], node.inputs[1]}, node.attrs, input_grad);
    case OpKind::kBalanceLoss:
      return contribute(node.inputs[0], OpKind::kBalanceGrad, {node.inputs[0]}, node.attrs,
                        input_grad);
    default:
      break;
  }
  const ValueId dy = node.outputs.empty() ? kNoValue : grad(node.outputs[0]);
  if (dy == kNoValue) return;
  switch (node.op) {
    case OpKind::kCast:
      return visit_cast(node, dy);
    case OpKind::kLinear:
      return visit_linear(node, dy);
    case OpKind::kRmsNorm:
      return visit_rms_norm(node, dy);
    case OpKind::kEmbedding: {
      Attrs attrs = node.attrs;
      attrs.rows = graph_.type(node.inputs[1]).shape[0];
      return contribute_weight(node.inputs[1], OpKind::kEmbeddingDw, {node.inputs[0], dy}, attrs,
                               node.tag);
    }
    case OpKind::kRope: {
      Attrs attrs = node.attrs;
      attrs.inverse = !attrs.inverse;
      return contribute(node.inputs[0], OpKind::kRope, {dy}, attrs, input_grad);
    }
    case OpKind::kDropout:
      return contribute(node.inputs[0], OpKind::kDropout, {dy}, node.attrs, input_grad);
    case OpKind::kSwiGlu:
      return contribute(node.inputs[0], OpKind::kSwiGluGrad, {dy, node.inputs[0]}, {}, input_grad);
    case OpKind::kAdd:
      contribute_value(node.inputs[0], dy, input_grad);
      return contribute_value(node.inputs[1], dy, input_grad);
    case OpKind::kAttention: {
      const ValueId q = node.inputs[0];
      const ValueId kv = node.inputs[1];
      const std::vector<ValueId> both =
          graph_.add(OpKind::kAttentionGrad, {q, kv, node.outputs[0], node.outputs[1], dy},
                     {grad_name(q), grad_name(kv)}, node.attrs, input_grad);
      contribute_value(q, both[0], input_grad);
      return contribute_value(kv, both[1], input_grad);
    }
    case OpKind::kAddBias:
      contribute_value(node.inputs[0], dy, input_grad);
      return contribute_weight(node.inputs[1], OpKind::kBiasDw, {dy}, {}, node.tag);
    case OpKind::kLayerNorm:
      return visit_layer_norm(node, dy);
    case OpKind::kHeadNorm:
      return visit_head_norm(node, dy);
    case OpKind::kAddPositions:
      return visit_positions(node, dy);
    case OpKind::kGelu:
      return contribute(node.inputs[0], OpKind::kGeluGrad, {dy, node.inputs[0]}, {}, input_grad);
    case OpKind::kInput:
    case OpKind::kParameter:
      return;
    case OpKind::kRouter:
    case OpKind::kRouterStats:
    case OpKind::kDispatch:
    case OpKind::kExpertLinear:
    case OpKind::kExpertSwiGlu:
    case OpKind::kCombine:
    case OpKind::kBalanceTotals:
      return visit_expert_op(node, dy);
    default:
      TESSERA_CHECK(false, "{} has no gradient rule", name_of(node.op));
  }
}

std::map<ValueId, ValueId> Differentiator::run() {
  std::map<ValueId, ValueId> gradients;
  for (const size_t i : visit_order()) {
    const Node node = graph_.nodes()[i];  // a copy: visiting appends nodes
    visit(node);
    if (node.op == OpKind::kParameter) gradients[node.outputs[0]] = grad(node.outputs[0]);
  }
  return gradients;
}

}  // namespace

std::map<ValueId, ValueId> differentiate(Graph& graph, bool narrow) {
  return Differentiator(graph, narrow).run();
}

}  // namespace tessera
