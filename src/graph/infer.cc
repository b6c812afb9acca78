// Type inference: shapes and placements by the rules of the op's row.
#include <algorithm>
#include <optional>

#include "graph/graph.h"
#include "graph/op_table.h"
#include "graph/operands.h"

namespace tessera {
namespace {

bool fits(const PlacementRule& rule, const Operands& operands, Axis axis) {
  return rule.axes.contains(axis) && rule.inputs.size() == operands.size();
}

bool matches(const PlacementRule& rule, const Operands& operands, Axis axis) {
  if (!fits(rule, operands, axis)) return false;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!(rule.inputs[i] == operands.in(i).on(axis))) return false;
  }
  return true;
}

// Names the tensor whose cast is missing, doubled or misplaced: the one that alone keeps a rule
// from matching.
[[noreturn]] void explain(std::span<const PlacementRule> rules, const Operands& operands,
                          Axis axis) {
  std::string have;
  for (size_t i = 0; i < operands.size(); ++i) {
    have += fmt::format("{}'{}' is {}", i > 0 ? ", " : "", operands.name(i),
                        to_string(operands.in(i).on(axis)));
  }
  std::string hint;
  for (const PlacementRule& rule : rules) {
    if (!fits(rule, operands, axis)) continue;
    std::optional<size_t> odd;
    size_t wrong = 0;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (rule.inputs[i] == operands.in(i).on(axis)) continue;
      odd = i;
      ++wrong;
    }
    if (wrong != 1) continue;
    hint += fmt::format("; '{}' would have to be {} on {}", operands.name(*odd),
                        to_string(rule.inputs[*odd]), name_of(axis));
  }
  operands.fail(
      fmt::format("on axis {} {}, which this op does not take: a collective is missing, doubled or "
                  "misplaced{}",
                  name_of(axis), have, hint));
}

// Where several rules match the last one holds.
void place(const Operands& operands, std::vector<TensorType>& outputs) {
  const std::span<const PlacementRule> rules = placement_rules(operands.node().op);
  for (const Axis axis : kAllAxes) {
    const auto match = std::find_if(rules.rbegin(), rules.rend(), [&](const PlacementRule& rule) {
      return matches(rule, operands, axis);
    });
    if (match == rules.rend()) explain(rules, operands, axis);
    for (size_t i = 0; i < outputs.size(); ++i) {
      outputs[i].placements[index_of(axis)] = match->outputs[i];
    }
  }
}

void check_accumulation(const Operands& operands, const TensorType& output) {
  if (!can_accumulate(operands.node().op)) operands.fail("cannot add to an existing value");
  const Value& before = operands.graph().value(operands.node().inputs.back());
  if (before.type == output) return;
  operands.fail(fmt::format("adds {} to '{}', which is {}", to_string(output), before.name,
                            to_string(before.type)));
}

}  // namespace

std::vector<TensorType> infer_types(const Graph& graph, const Node& node) {
  const OpRow& row = row_of(node.op);
  const Operands operands(graph, node);
  if (!row.signature.inputs().contains(operands.size())) {
    operands.fail(
        fmt::format("takes '{}' but has {} inputs", row.signature.text(), operands.size()));
  }
  std::vector<TensorType> outputs = row.types(operands);
  if (!row.rules.all().empty()) place(operands, outputs);
  if (node.accumulate) check_accumulation(operands, outputs.front());
  return outputs;
}

}  // namespace tessera
