#include "compile/passes/recompute.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "compile/passes/passes.h"
#include "compile/passes/rewrite.h"
#include "graph/op_table.h"
#include "spec/recompute.h"

namespace tessera {
namespace {

// Opening the weights is no computation: who reads them decides when they are gathered.
bool opens_weights(const Node& node) {
  return node.op == OpKind::kViews || node.op == OpKind::kParameter ||
         (node.op == OpKind::kCast && node.attrs.bucket >= 0);
}

// What costs less than the memory of its result.
bool is_cheap(const Graph& graph, const Node& node, const Mesh& mesh, const CheapValues& values) {
  switch (row_of(node.op).cheap) {
    case CheapAs::kNothing:
      return false;
    case CheapAs::kNorm:
      return values.norms;
    case CheapAs::kActivation:
      return values.activations;
    case CheapAs::kAttention:
      return values.attention;
    case CheapAs::kLocalCast:
      return !communicates(graph, node, mesh);
  }
  return false;
}

// Positions of the nodes of each unit, in order.
class NodesOfUnits {
 public:
  explicit NodesOfUnits(const Graph& graph) {
    for (size_t i = 0; i < graph.nodes().size(); ++i) {
      const auto unit = static_cast<size_t>(graph.nodes()[i].tag.unit);
      if (positions_.size() <= unit) positions_.resize(unit + 1);
      positions_[unit].push_back(i);
    }
  }
  [[nodiscard]] std::vector<size_t> of(const UnitGroup& units) const {
    std::vector<size_t> all;
    for (const int unit : units) {
      const auto at = static_cast<size_t>(unit);
      if (at >= positions_.size()) continue;
      all.insert(all.end(), positions_[at].begin(), positions_[at].end());
    }
    if (units.size() > 1) std::sort(all.begin(), all.end());
    return all;
  }

 private:
  std::vector<std::vector<size_t>> positions_;
};

// Which of the forward nodes at `candidates` (in order) must run again so that the gradients among
// the nodes at `unit_nodes` need none of their results.
std::vector<size_t> needed_again(const Graph& graph, const std::vector<size_t>& candidates,
                                 const std::vector<size_t>& unit_nodes) {
  std::set<ValueId> read;
  for (const size_t i : unit_nodes) {
    const Node& node = graph.nodes()[i];
    if (is_backward(node)) read.insert(node.inputs.begin(), node.inputs.end());
  }
  std::vector<size_t> again;
  for (size_t i = candidates.size(); i > 0; --i) {
    const Node& node = graph.nodes()[candidates[i - 1]];
    const bool needed = std::any_of(node.outputs.begin(), node.outputs.end(),
                                    [&](ValueId v) { return read.contains(v); });
    if (!needed) continue;
    TESSERA_CHECK(!node.accumulate, "{} '{}' would be added twice", name_of(node.op), node.name);
    read.insert(node.inputs.begin(), node.inputs.end());
    again.push_back(candidates[i - 1]);
  }
  std::reverse(again.begin(), again.end());
  return again;
}

// Puts second instances of the nodes at `again` (in order) before the positions `before`, and lets
// the gradients among the nodes at `unit_nodes` read those.
void run_again(Graph& graph, const std::vector<size_t>& again, const std::vector<size_t>& before,
               const std::vector<size_t>& unit_nodes, Insertions& insertions) {
  Renaming renamed;
  for (size_t i = 0; i < again.size(); ++i) {
    Node source = graph.nodes()[again[i]];
    rename_inputs(source, renamed);
    const Tag tag{Pass::kRecompute, source.tag.unit, -1};
    insertions[before[i]].push_back(clone_node(graph, source, source.inputs, tag, renamed));
  }
  for (const size_t i : unit_nodes) {
    Node& node = graph.mutable_nodes()[i];
    if (is_backward(node)) rename_inputs(node, renamed);
  }
}

// Where a block stands in its stage.
struct Block {
  int unit;
  size_t part;  // of its stage's choice
  bool first;   // of its part
  RecomputeChoice choice;
};

std::vector<Block> blocks_of(const RunSpec& spec, const StageLayout& stages) {
  const std::vector<std::vector<RecomputePart>> choices =
      parse_stages_recompute(spec.parallel.recompute, spec.model.layers, stages.stages());
  std::vector<Block> blocks;
  int64_t in_stage = 0;
  for (int unit = 1; unit <= static_cast<int>(spec.model.layers); ++unit, ++in_stage) {
    const bool new_stage = unit == 1 || stages.stage_of(unit) != stages.stage_of(unit - 1);
    if (new_stage) in_stage = 0;
    const auto stage = static_cast<size_t>(stages.stage_of(unit));
    const std::vector<RecomputePart>& parts = choices[std::min(stage, choices.size() - 1)];
    const size_t part = part_of_block(parts, in_stage);
    blocks.push_back({unit, part, new_stage || part != blocks.back().part, parts[part].choice});
  }
  return blocks;
}

}  // namespace

std::vector<UnitGroup> recompute_groups(const RunSpec& spec, const StageLayout& stages) {
  std::vector<UnitGroup> groups;
  for (const Block& block : blocks_of(spec, stages)) {
    const int64_t blocks = block.choice.blocks;
    if (blocks == 0) continue;
    if (block.first || static_cast<int64_t>(groups.back().size()) == blocks) groups.emplace_back();
    groups.back().insert(block.unit);
  }
  return groups;
}

std::vector<CheapValues> cheap_values(const RunSpec& spec, const StageLayout& stages) {
  std::vector<CheapValues> values;
  for (const Block& block : blocks_of(spec, stages)) {
    const RecomputeChoice& choice = block.choice;
    if (!choice.norms) continue;
    const auto same = std::find_if(values.begin(), values.end(), [&](const CheapValues& v) {
      return v.activations == choice.activations && v.attention == choice.attention;
    });
    if (same != values.end()) {
      same->units.insert(block.unit);
    } else {
      values.push_back({{block.unit}, choice.norms, choice.activations, choice.attention});
    }
  }
  return values;
}

void recompute_units(Graph& graph, const std::vector<UnitGroup>& groups) {
  if (groups.empty()) return;
  Insertions insertions;
  const std::vector<Node>& nodes = graph.nodes();
  const NodesOfUnits positions(graph);
  for (const UnitGroup& units : groups) {
    const std::vector<size_t> unit_nodes = positions.of(units);
    std::vector<size_t> forward;
    size_t backward = nodes.size();
    for (const size_t i : unit_nodes) {
      if (nodes[i].tag.pass == Pass::kForward && !opens_weights(nodes[i])) forward.push_back(i);
      if (is_backward(nodes[i])) backward = std::min(backward, i);
    }
    const std::vector<size_t> again = needed_again(graph, forward, unit_nodes);
    run_again(graph, again, std::vector<size_t>(again.size(), backward), unit_nodes, insertions);
  }
  insert_nodes(graph, std::move(insertions));
  check_graph(graph, "recompute_units");
}

namespace {

// For each node at `again`: before the first gradient that reads its result, or one of its inputs,
// which that gradient may overwrite.
std::vector<size_t> latest_positions(const Graph& graph, const std::vector<size_t>& again,
                                     const std::vector<size_t>& unit_nodes) {
  const std::vector<Node>& nodes = graph.nodes();
  std::map<ValueId, size_t> first_read;
  for (const size_t i : unit_nodes) {
    if (!is_backward(nodes[i])) continue;
    for (const ValueId in : nodes[i].inputs) first_read.try_emplace(in, i);
  }
  std::vector<size_t> positions(again.size());
  for (size_t i = again.size(); i > 0; --i) {
    const Node& node = nodes[again[i - 1]];
    size_t position = nodes.size();
    for (const auto* values : {&node.inputs, &node.outputs}) {
      for (const ValueId v : *values) {
        if (const auto found = first_read.find(v); found != first_read.end()) {
          position = std::min(position, found->second);
        }
      }
    }
    positions[i - 1] = position;
    for (const ValueId in : node.inputs) {
      const auto [read, fresh] = first_read.try_emplace(in, position);
      if (!fresh) read->second = std::min(read->second, position);
    }
  }
  return positions;
}

void run_cheap_again(Graph& graph, const Mesh& mesh, const CheapValues& values,
                     const std::vector<size_t>& unit_nodes, Insertions& insertions) {
  const std::vector<Node>& nodes = graph.nodes();
  std::vector<size_t> cheap;
  for (const size_t i : unit_nodes) {
    const Node& node = nodes[i];
    if (node.tag.pass == Pass::kForward && !opens_weights(node) &&
        is_cheap(graph, node, mesh, values)) {
      cheap.push_back(i);
    }
  }
  const std::vector<size_t> again = needed_again(graph, cheap, unit_nodes);
  run_again(graph, again, latest_positions(graph, again, unit_nodes), unit_nodes, insertions);
}

}  // namespace

void recompute_cheap_values(Graph& graph, const Mesh& mesh, const std::vector<CheapValues>& all) {
  if (all.empty()) return;
  Insertions insertions;
  const NodesOfUnits positions(graph);
  for (const CheapValues& values : all) {
    for (const int unit : values.units) {
      run_cheap_again(graph, mesh, values, positions.of({unit}), insertions);
    }
  }
  insert_nodes(graph, std::move(insertions));
  check_graph(graph, "recompute_cheap_values");
}

}  // namespace tessera
