// What the rows of several families name.
#pragma once

#include <vector>

#include "base/cuda_workspace.h"
#include "base/error.h"
#include "base/workspace.h"
#include "graph/gradients.h"
#include "graph/kernel_sizes.h"
#include "graph/op_table.h"
#include "graph/operands.h"

namespace tessera::ops {

using Types = std::vector<TensorType>;

inline Types never_in_a_graph(const Operands& o) {
  o.want(false, "has no shape rule");
  return {};
}
template <size_t I>
Types like_input(const Operands& o) {
  return {o.like(I)};
}
inline Types one_number(const Operands&) { return {{DType::kF64, {1}, {}}}; }

inline void no_gradient(Gradients&, const Node& node, ValueId) {
  TESSERA_CHECK(false, "{} has no gradient rule", name_of(node.op));
}
// What is fed or stored: gradients end here.
inline void ends_here(Gradients&, const Node&, ValueId) {}

inline int64_t gpu_column_sums(const KernelSizes& s) {
  return workspace::cuda::column_sums(s.dtype, s.in(0)[0], s.in(0)[1]);
}

// The row of an op that lowering alone adds: an instruction, and nothing that a graph asks for.
constexpr OpRow only_lowered(OpKind kind, const char* name, const char* signature, OpClass op_class,
                             OpCost cost = {}, ScratchRule* gpu_scratch = nullptr) {
  return {.kind = kind,
          .name = name,
          .signature = signature,
          .types = never_in_a_graph,
          .rules = RuleTexts::none(),
          .gradient = no_gradient,
          .storage = Place::kElsewhere,
          .adds = Adds::kNever,
          .op_class = op_class,
          .cost = cost,
          .kernel = {.lowered = Lowered::kNotInGraph, .gpu_scratch = gpu_scratch}};
}

}  // namespace tessera::ops
