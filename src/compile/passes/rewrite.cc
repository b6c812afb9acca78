#include "compile/passes/rewrite.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tessera {

bool is_backward(const Node& node) {
  return node.tag.pass == Pass::kInputGrad || node.tag.pass == Pass::kWeightGrad;
}

bool reads(const Node& node, ValueId value) {
  return std::find(node.inputs.begin(), node.inputs.end(), value) != node.inputs.end();
}

bool reads_any(const Node& node, const std::set<ValueId>& values) {
  return std::any_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId v) { return values.contains(v); });
}

void insert_nodes(Graph& graph, Insertions insertions) {
  if (insertions.empty()) return;
  std::vector<Node> order;
  std::vector<Node>& nodes = graph.mutable_nodes();
  size_t more = 0;
  for (const auto& [position, list] : insertions) more += list.size();
  order.reserve(nodes.size() + more);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (const auto found = insertions.find(i); found != insertions.end()) {
      std::move(found->second.begin(), found->second.end(), std::back_inserter(order));
    }
    order.push_back(std::move(nodes[i]));
  }
  nodes = std::move(order);
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
