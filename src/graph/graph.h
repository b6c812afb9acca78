// A typed graph in single assignment form. Nodes are in an order in which they can run.
//
// Adding a node infers the types of its outputs and refuses, with TypeError, inputs whose
// placements the op does not take: a missing, doubled or misplaced collective is found here, and
// the message names the tensor and the axis.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "graph/op.h"
#include "graph/type.h"

namespace tessera {

class TypeError : public Error {
 public:
  explicit TypeError(const std::string& message) : Error(message) {}
};

using ValueId = int;
constexpr ValueId kNoValue = -1;

struct Value {
  std::string name;
  TensorType type;
};

// Where in the model and in the step a node belongs.
struct Tag {
  Pass pass = Pass::kForward;
  int unit = 0;    // 0 embedding, 1..layers the blocks, layers + 1 the head
  int chunk = -1;  // chunk of the loss, or -1
  friend bool operator==(const Tag&, const Tag&) = default;
};

struct Node {
  OpKind op = OpKind::kInput;
  std::string name;
  std::vector<ValueId> inputs;  // with `accumulate`, the last one is the value added to
  std::vector<ValueId> outputs;
  bool accumulate = false;
  Attrs attrs;
  Tag tag;
};

class Graph {
 public:
  // `names` are the output names, one per output of the op. Returns the outputs.
  std::vector<ValueId> add(OpKind op, const std::vector<ValueId>& inputs,
                           const std::vector<std::string>& names, Attrs attrs, Tag tag,
                           bool accumulate = false);
  // Shorthand for one output.
  ValueId add_one(OpKind op, const std::vector<ValueId>& inputs, const std::string& name,
                  Attrs attrs, Tag tag, bool accumulate = false);
  ValueId add_source(OpKind op, const std::string& name, const TensorType& type, Tag tag,
                     int bucket = -1);
  // All `axes` go from their present placement to `to`.
  ValueId cast(ValueId x, AxisSet axes, Placement to, const std::string& name, Tag tag);

  [[nodiscard]] const Value& value(ValueId id) const { return values_[static_cast<size_t>(id)]; }
  [[nodiscard]] const TensorType& type(ValueId id) const { return value(id).type; }
  [[nodiscard]] size_t num_values() const { return values_.size(); }
  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }
  // For passes that reorder or rewrite; they must leave a graph that check_graph accepts.
  std::vector<Node>& mutable_nodes() { return nodes_; }
  ValueId new_value(const std::string& name, const TensorType& type);

 private:
  std::vector<Value> values_;
  std::vector<Node> nodes_;
};

// The types of a node's outputs. Throws TypeError.
std::vector<TensorType> infer_types(const Graph& graph, const Node& node);

// Every node type-checks, every value is written once and before it is read. Throws TypeError.
void check_graph(const Graph& graph, std::string_view after_pass);

// One line per node, for people and golden files.
std::string to_text(const Graph& graph);

}  // namespace tessera
