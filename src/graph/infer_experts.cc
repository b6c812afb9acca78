#include "graph/infer_experts.h"

namespace tessera {
namespace {

ExpertShapes problem(const char* what) { return {{}, what}; }

// A row-wise product: rows[source, peer, capacity, K] with weights of K columns (or rows, for the
// gradient) give rows of `out` columns.
ExpertShapes rows_of_width(const TensorType& rows, int64_t inner, int64_t out) {
  if (rows.shape.size() != 4 || rows.shape[3] != inner) return problem("inner dimensions differ");
  TensorType type{rows.dtype, rows.shape, {}};
  type.shape[3] = out;
  return {{type}};
}

ExpertShapes dispatch(const TensorType& x, const TensorType& ids, const ExpertAttrs& a) {
  if (x.shape.size() != 2 || ids.shape.size() != 2 || x.shape[0] != ids.shape[0]) {
    return problem("needs one row of expert ids per token");
  }
  if (a.experts % a.peers != 0) return problem("the experts do not divide over their ranks");
  return {{{x.dtype, {a.sources, a.peers, a.capacity, x.shape[1]}, {}},
           {DType::kI32, {a.sources, a.peers, a.experts / a.peers}, {}},
           {DType::kI32, ids.shape, {}}}};
}

}  // namespace

ExpertShapes infer_expert_shapes(const Graph& graph, const Node& node) {
  const auto in = [&](size_t i) -> const TensorType& { return graph.type(node.inputs[i]); };
  const auto like = [&](size_t i) { return ExpertShapes{{{in(i).dtype, in(i).shape, {}}}}; };
  const ExpertAttrs& a = node.attrs.experts;
  switch (node.op) {
    case OpKind::kRouter:
      if (in(0).shape.size() != 2 || in(0).shape[1] != a.experts) {
        return problem("needs one logit per expert");
      }
      return {{{accumulate_type(in(0).dtype), {in(0).shape[0], a.per_token}, {}},
               {DType::kI32, {in(0).shape[0], a.per_token}, {}}}};
    case OpKind::kRouterGrad:
      return {{{a.dtype, {in(0).shape[0], a.experts}, {}}}};
    case OpKind::kRouterStats:
      return {{{DType::kF64, {a.sequences, 2 * a.experts + 1}, {}}}};
    case OpKind::kRouterStatsGrad:
      return like(0);
    case OpKind::kDispatch:
      return dispatch(in(0), in(1), a);
    case OpKind::kDispatchGrad:
      return {{{in(0).dtype, {in(1).shape[0], in(0).shape[3]}, {}}}};
    case OpKind::kExpertLinear:
      return rows_of_width(in(0), in(1).shape[2], in(1).shape[1]);
    case OpKind::kExpertLinearDx:
      return rows_of_width(in(0), in(1).shape[1], in(1).shape[2]);
    case OpKind::kExpertLinearDw:
      return {{{node.attrs.narrow ? in(0).dtype : accumulate_type(in(0).dtype),
                {a.experts, in(0).shape[3], in(1).shape[3]},
                {}}}};
    case OpKind::kExpertSwiGlu:
      return rows_of_width(in(0), in(0).shape[3], in(0).shape[3] / 2);
    case OpKind::kExpertSwiGluGrad:
      return like(1);
    case OpKind::kCombine:
      return {{{in(0).dtype, {in(1).shape[0], in(0).shape[3]}, {}}}};
    case OpKind::kCombineGrad:
      return {{{in(1).dtype, in(1).shape, {}}, {in(3).dtype, in(3).shape, {}}}};
    case OpKind::kBalanceTotals:
    case OpKind::kBalanceGrad:
      return like(0);
    case OpKind::kBalanceLoss:
      return {{{DType::kF64, {1}, {}}}};
    default:
      return problem("has no shape rule");
  }
}

}  // namespace tessera
