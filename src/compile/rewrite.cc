#include "compile/rewrite.h"

#include <algorithm>
#include <utility>

namespace tessera {

bool is_backward(const Node& node) {
  return node.tag.pass == Pass::kInputGrad || node.tag.pass == Pass::kWeightGrad;
}

bool reads_any(const Node& node, const std::set<ValueId>& values) {
  return std::any_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId v) { return values.contains(v); });
}

void insert_nodes(Graph& graph, const Insertions& insertions) {
  std::vector<Node> order;
  const std::vector<Node>& nodes = graph.nodes();
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (const auto found = insertions.find(i); found != insertions.end()) {
      order.insert(order.end(), found->second.begin(), found->second.end());
    }
    order.push_back(nodes[i]);
  }
  graph.mutable_nodes() = std::move(order);
}

void rename_inputs(Node& node, const Renaming& renamed) {
  for (ValueId& in : node.inputs) {
    if (const auto found = renamed.find(in); found != renamed.end()) in = found->second;
  }
}

Node clone_node(Graph& graph, const Node& node, std::vector<ValueId> inputs, Tag tag,
                Renaming& renamed) {
  Node copy = node;
  copy.inputs = std::move(inputs);
  copy.tag = tag;
  for (ValueId& out : copy.outputs) {
    const ValueId fresh = graph.new_value(graph.value(out).name + ".again", graph.type(out));
    renamed[out] = fresh;
    out = fresh;
  }
  return copy;
}

}  // namespace tessera
