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

}  // namespace tessera::ops
