// Shapes of the ops of a mixture of experts.
#pragma once

#include "graph/graph.h"

namespace tessera {

struct ExpertShapes {
  std::vector<TensorType> types;  // of the outputs, not placed yet; empty: a problem
  const char* problem = "has no shape rule";
};
ExpertShapes infer_expert_shapes(const Graph& graph, const Node& node);

}  // namespace tessera
