// Tables that tokens are looked up in: embeddings and learned positions.
#pragma once

#include "graph/ops/common.h"

namespace tessera::ops {

inline Types embedding_types(const Operands& o) {
  o.want_matrix(1);
  o.want(o.in(0).dtype == DType::kI32, "needs integer ids");
  return {{o.in(1).dtype, {o.dim(0, 0), o.dim(1, 1)}, {}}};
}
inline Types embedding_dw_types(const Operands& o) {
  return {{o.gradient(1), {o.attrs().rows, o.dim(1, 1)}, {}}};
}
inline Types add_positions_types(const Operands& o) {
  o.want_matrix(0), o.want_matrix(1);
  o.want(o.dim(0, 1) == o.dim(1, 1), "the table must match the width");
  o.want(o.attrs().seq_len <= o.dim(1, 0), "the table has too few positions");
  return {o.like(0)};
}
inline Types positions_dw_types(const Operands& o) {
  o.want_matrix(0);
  return {{o.gradient(0), {o.attrs().rows, o.dim(0, 1)}, {}}};
}

inline Attrs with_rows_of_table(const Gradients& g, const Node& node) {
  Attrs attrs = node.attrs;
  attrs.rows = g.graph().type(node.inputs[1]).shape[0];
  return attrs;
}
inline void embedding_gradient(Gradients& g, const Node& node, ValueId dy) {
  g.contribute_weight(node.inputs[1], OpKind::kEmbeddingDw, {node.inputs[0], dy},
                      with_rows_of_table(g, node), node.tag);
}
inline void positions_gradient(Gradients& g, const Node& node, ValueId dy) {
  g.contribute_value(node.inputs[0], dy, input_grad(node));
  g.contribute_weight(node.inputs[1], OpKind::kPositionsDw, {dy}, with_rows_of_table(g, node),
                      node.tag);
}

inline int64_t cpu_table_grad(const KernelSizes& s) {
  return workspace::table_grad(s.gradients, s.out(0)[0], s.threads);
}
inline int64_t gpu_embedding_dw(const KernelSizes& s) {
  return workspace::cuda::embedding_dw(s.in(0)[0]);
}

inline constexpr OpRow kEmbeddingOps[] = {
    {.kind = OpKind::kEmbedding,
     .name = "embedding",
     .signature = "ids table > y",
     .types = embedding_types,
     .rules = {"I I > I", "S0 R > S0", "R S0 > P"},
     .gradient = embedding_gradient,
     .storage = Place::kNew,
     .adds = Adds::kNever,
     .op_class = OpClass::kEmbedding,
     .cost = {.bytes = BytesMoved::kLookedUp},
     .kernel = {.numbers = KernelNumbers::kVocabularyOfTable}},
    {.kind = OpKind::kEmbeddingDw,
     .name = "embedding_dw",
     .signature = "ids dy > dtable",
     .types = embedding_dw_types,
     .rules = {"I I > I", "S0 S0 > P", "R R > S0"},
     .gradient = no_gradient,
     .storage = Place::kNew,
     .adds = Adds::kToOutput,
     .op_class = OpClass::kEmbedding,
     .kernel = {.numbers = KernelNumbers::kVocabularyOfGradient,
                .cpu_scratch = cpu_table_grad,
                .gpu_scratch = gpu_embedding_dw}},
    {.kind = OpKind::kAddPositions,
     .name = "add_positions",
     .signature = "x table > y",
     .types = add_positions_types,
     .rules = {"I I > I", "S0 R > S0"},
     .gradient = positions_gradient,
     .storage = over_input(0),
     .adds = Adds::kNever,
     .op_class = OpClass::kEmbedding,
     .kernel = {.numbers = KernelNumbers::kTokens}},
    {.kind = OpKind::kPositionsDw,
     .name = "positions_dw",
     .signature = "dy > dtable",
     .types = positions_dw_types,
     .rules = {"I > I", "S0 > P"},
     .gradient = no_gradient,
     .storage = Place::kNew,
     .adds = Adds::kToOutput,
     .op_class = OpClass::kEmbedding,
     .kernel = {.numbers = KernelNumbers::kTokens, .cpu_scratch = cpu_table_grad}},
};

}  // namespace tessera::ops
