// The inputs of a node, as type rules see them: types, and refusals that name the node.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace tessera {

class Operands {
 public:
  Operands(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  [[nodiscard]] size_t size() const { return node_.inputs.size() - (node_.accumulate ? 1 : 0); }
  [[nodiscard]] const TensorType& in(size_t i) const { return graph_.type(node_.inputs[i]); }
  [[nodiscard]] const std::string& name(size_t i) const {
    return graph_.value(node_.inputs[i]).name;
  }
  [[nodiscard]] const Attrs& attrs() const { return node_.attrs; }
  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] const Node& node() const { return node_; }

  // Parts of types.
  [[nodiscard]] int64_t dim(size_t i, size_t d) const { return in(i).shape[d]; }
  [[nodiscard]] DType wide(size_t i) const { return accumulate_type(in(i).dtype); }
  // The type of weight gradients.
  [[nodiscard]] DType gradient(size_t i) const { return attrs().narrow ? in(i).dtype : wide(i); }
  [[nodiscard]] TensorType like(size_t i) const { return {in(i).dtype, in(i).shape, {}}; }

  // All throw TypeError.
  [[noreturn]] void fail(const std::string& why) const;
  void want(bool ok, const char* what) const;  // with the types of the inputs
  void want_matrix(size_t i) const { want(in(i).shape.size() == 2, "needs matrices"); }
  void want_alike(size_t i, size_t j) const {
    want(in(i).shape == in(j).shape && in(i).dtype == in(j).dtype, "shapes differ");
  }

 private:
  const Graph& graph_;
  const Node& node_;
};

}  // namespace tessera
