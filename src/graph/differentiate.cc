#include "graph/differentiate.h"

#include <vector>

#include "graph/gradients.h"
#include "graph/op_table.h"

namespace tessera {
namespace {

// Backwards, but chunks of the loss in their forward order.
std::vector<size_t> visit_order(const std::vector<Node>& nodes) {
  std::vector<size_t> order;
  for (size_t end = nodes.size(); end > 0;) {
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

void visit(Gradients& gradients, const Node& node) {
  const Gradient& gradient = row_of(node.op).gradient;
  const ValueId dy = node.outputs.empty() ? kNoValue : gradients.of(node.outputs[0]);
  if (dy == kNoValue && gradient.needs_output()) return;
  gradient.rule()(gradients, node, dy);
}

}  // namespace

std::map<ValueId, ValueId> differentiate(Graph& graph, bool narrow) {
  Gradients gradients(graph, narrow);
  std::map<ValueId, ValueId> of_parameters;
  for (const size_t i : visit_order(graph.nodes())) {
    const Node node = graph.nodes()[i];  // a copy: visiting appends nodes
    visit(gradients, node);
    if (node.op == OpKind::kParameter) {
      of_parameters[node.outputs[0]] = gradients.of(node.outputs[0]);
    }
  }
  return of_parameters;
}

void differentiate_from(Graph& graph, ValueId value, ValueId gradient) {
  Gradients gradients(graph, /*narrow=*/false);
  gradients.contribute_value(value, gradient, {.pass = Pass::kInputGrad});
  for (const size_t i : visit_order(graph.nodes())) {
    const Node node = graph.nodes()[i];  // a copy: visiting appends nodes
    visit(gradients, node);
  }
}

}  // namespace tessera
