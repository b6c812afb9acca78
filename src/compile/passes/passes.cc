#include "compile/passes/passes.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "compile/passes/rewrite.h"

namespace tessera {
namespace {

// A stretch of the step in which a unit's weights are needed: its forward; its backward, with what
// is computed again right before it; what is computed again earlier. The head has only one.
enum class Phase { kForward, kRecompute, kBackward };
using Stretch = std::pair<int, Phase>;  // unit and phase

class Stretches {
 public:
  Stretches(const Graph& graph, int head_unit) : head_unit_(head_unit) {
    std::set<int> recomputed;
    std::set<int> begun;  // units whose backward has begun
    int before = -1;      // unit of the node before, recomputed or backward
    for (const Node& node : graph.nodes()) {
      const int unit = node.tag.unit;
      const bool again = node.tag.pass == Pass::kRecompute;
      if (again) recomputed.insert(unit);
      if (is_backward(node) && begun.insert(unit).second && recomputed.contains(unit) &&
          before != unit) {
        apart_.insert(unit);
      }
      if (again || is_backward(node)) before = unit;
    }
  }

  [[nodiscard]] Stretch of(const Node& node) const {
    const int unit = node.tag.unit;
    const bool again = node.tag.pass == Pass::kRecompute;
    if (unit == head_unit_ || (!again && !is_backward(node))) return {unit, Phase::kForward};
    return {unit, again && apart_.contains(unit) ? Phase::kRecompute : Phase::kBackward};
  }

 private:
  int head_unit_;
  std::set<int> apart_;  // other units run between their recomputation and their backward
};

}  // namespace

CastKind moving_kind(const Graph& graph, const Node& node, const Mesh& mesh) {
  std::optional<CastKind> moving;
  for (const Axis axis : kAllAxes) {
    if (!node.attrs.axes.contains(axis) || mesh.size(axis) == 1) continue;
    const CastKind kind = cast_kind(graph.type(node.inputs[0]).on(axis), node.attrs.to);
    TESSERA_CHECK(!moving.has_value() || *moving == kind,
                  "cast '{}' over {} would need more than one collective", node.name,
                  name_of(node.attrs.axes));
    moving = kind;
  }
  return moving.value_or(CastKind::kNothing);
}

bool communicates(const Graph& graph, const Node& node, const Mesh& mesh) {
  if (node.op == OpKind::kShift) return mesh.size(node.attrs.axes) > 1;
  if (node.op != OpKind::kCast) return false;
  const CastKind kind = moving_kind(graph, node, mesh);
  return kind != CastKind::kNothing && kind != CastKind::kSlice;
}

void interleave_loss_chunks(Graph& graph) {
  std::map<int, std::vector<Node>> backward;
  std::map<int, size_t> last_forward;
  std::vector<Node>& nodes = graph.mutable_nodes();
  const auto moves = [](const Node& node) { return node.tag.chunk >= 0 && is_backward(node); };
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].tag.chunk >= 0 && !moves(nodes[i])) last_forward[nodes[i].tag.chunk] = i;
  }
  for (Node& node : nodes) {
    if (moves(node)) backward[node.tag.chunk].push_back(std::move(node));
  }
  std::vector<Node> order;
  order.reserve(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    const int chunk = nodes[i].tag.chunk;
    if (moves(nodes[i])) continue;
    order.push_back(std::move(nodes[i]));
    if (chunk >= 0 && last_forward[chunk] == i) {
      std::vector<Node>& after = backward[chunk];
      std::move(after.begin(), after.end(), std::back_inserter(order));
    }
  }
  nodes = std::move(order);
  check_graph(graph, "interleave_loss_chunks");
}

void fuse_add_norm(Graph& graph, const StageLayout& stages) {
  std::vector<Node> order;
  order.reserve(graph.nodes().size());
  std::map<ValueId, Node> sums;  // additions that nobody has read yet, by their result
  for (Node& node : graph.mutable_nodes()) {
    const bool norm = node.op == OpKind::kRmsNorm || node.op == OpKind::kLayerNorm;
    const auto sum = norm ? sums.find(node.inputs[0]) : sums.end();
    if (sum != sums.end() &&
        stages.stage_of(sum->second.tag.unit) == stages.stage_of(node.tag.unit)) {
      Node fused = std::move(node);
      fused.op = fused.op == OpKind::kRmsNorm ? OpKind::kAddRmsNorm : OpKind::kAddLayerNorm;
      const std::vector<ValueId>& added = sum->second.inputs;
      fused.inputs.erase(fused.inputs.begin());
      fused.inputs.insert(fused.inputs.begin(), added.begin(), added.end());
      fused.outputs.insert(fused.outputs.begin(), sum->first);
      sums.erase(sum);
      order.push_back(std::move(fused));
      continue;
    }
    const bool forward = node.tag.pass == Pass::kForward || node.tag.pass == Pass::kRecompute;
    if (node.op == OpKind::kAdd && forward) {
      const ValueId result = node.outputs[0];
      sums[result] = std::move(node);
      continue;
    }
    for (const ValueId in : node.inputs) {
      if (const auto read = sums.find(in); read != sums.end()) {
        order.push_back(std::move(read->second));
        sums.erase(read);
      }
    }
    order.push_back(std::move(node));
  }
  for (auto& [value, node] : sums) order.push_back(std::move(node));
  graph.mutable_nodes() = std::move(order);
  check_graph(graph, "fuse_add_norm");
}

void delay_weight_gradients(Graph& graph, const Mesh& mesh) {
  std::vector<Node> order;
  std::vector<Node> pending;
  std::set<ValueId> pending_values;
  const auto flush = [&] {
    std::move(pending.begin(), pending.end(), std::back_inserter(order));
    pending.clear();
    pending_values.clear();
  };
  order.reserve(graph.nodes().size());
  for (Node& node : graph.mutable_nodes()) {
    if (!pending.empty() && node.tag.unit != pending.front().tag.unit) flush();
    if (node.tag.pass == Pass::kWeightGrad && node.tag.chunk < 0) {
      pending_values.insert(node.outputs.begin(), node.outputs.end());
      pending.push_back(std::move(node));
      continue;
    }
    if (reads_any(node, pending_values)) flush();
    const bool sends = node.attrs.bucket < 0 && communicates(graph, node, mesh);
    order.push_back(std::move(node));
    if (sends) flush();
  }
  flush();
  graph.mutable_nodes() = std::move(order);
  check_graph(graph, "delay_weight_gradients");
}

namespace {

// By value, the positions of the nodes that read it, in order.
std::vector<std::vector<size_t>> find_readers(const Graph& graph) {
  std::vector<std::vector<size_t>> readers(graph.num_values());
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    for (const ValueId v : graph.nodes()[i].inputs) {
      std::vector<size_t>& list = readers[static_cast<size_t>(v)];
      if (list.empty() || list.back() != i) list.push_back(i);
    }
  }
  return readers;
}

// The gathered input of column-split products: gathered again before the first gradient that goes
// through the same weights, so that the gather hides behind it.
void regather_activation(Graph& graph, const Node& gather,
                         const std::vector<std::vector<size_t>>& readers, Insertions& insertions) {
  std::vector<Node>& nodes = graph.mutable_nodes();
  const ValueId gathered = gather.outputs[0];
  std::vector<size_t> renames;  // gradients that read what was gathered
  std::set<ValueId> weights;
  for (const size_t i : readers[static_cast<size_t>(gathered)]) {
    if (is_backward(nodes[i])) renames.push_back(i);
    if (nodes[i].op == OpKind::kLinear && nodes[i].inputs[0] == gathered) {
      weights.insert(nodes[i].inputs[1]);
    }
  }
  if (renames.empty()) return;  // the block is recomputed, gather included
  size_t first = renames.front();
  for (const ValueId weight : weights) {
    for (const size_t i : readers[static_cast<size_t>(weight)]) {
      const bool through =
          is_backward(nodes[i]) && nodes[i].op == OpKind::kLinearDx && nodes[i].inputs[1] == weight;
      if (through) first = std::min(first, i);
    }
  }
  Renaming renamed;
  const Tag tag{Pass::kInputGrad, gather.tag.unit, -1};
  insertions[first].push_back(clone_node(graph, gather, gather.inputs, tag, renamed));
  for (const size_t i : renames) rename_inputs(nodes[i], renamed);
}

// Positions of the nodes that open a bucket's weights, and of those that read them, in order.
struct BucketUse {
  std::vector<size_t> casts;
  std::vector<size_t> readers;
};

// By the position of their forward views.
std::map<size_t, BucketUse> find_bucket_uses(const Graph& graph) {
  const std::vector<Node>& nodes = graph.nodes();
  std::map<size_t, BucketUse> uses;
  std::map<int, std::vector<size_t>> casts;  // by bucket
  std::vector<BucketUse*> opened(graph.num_values(), nullptr);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].tag.pass != Pass::kForward) continue;
    if (nodes[i].op == OpKind::kCast) casts[nodes[i].attrs.bucket].push_back(i);
    if (nodes[i].op != OpKind::kViews) continue;
    for (const ValueId v : nodes[i].outputs) opened[static_cast<size_t>(v)] = &uses[i];
  }
  for (auto& [views_at, use] : uses) use.casts = casts[nodes[views_at].attrs.bucket];
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const ValueId v : nodes[i].inputs) {
      BucketUse* use = opened[static_cast<size_t>(v)];
      if (use == nullptr || (!use->readers.empty() && use->readers.back() == i)) continue;
      use->readers.push_back(i);
    }
  }
  return uses;
}

// The weights of a bucket that lives as S: every stretch but the first gets a gather of its own.
void regather_bucket(Graph& graph, size_t views_at, const BucketUse& use,
                     const Stretches& stretches, Insertions& insertions) {
  const Node views = graph.nodes()[views_at];
  std::vector<Node> casts;
  for (const size_t i : use.casts) casts.push_back(graph.nodes()[i]);
  const Stretch first = stretches.of(views);
  std::map<Stretch, Renaming> renamed_in;
  std::vector<Node>& nodes = graph.mutable_nodes();
  for (const size_t i : use.readers) {
    const Stretch stretch = stretches.of(nodes[i]);
    if (stretch == first) continue;
    if (!renamed_in.contains(stretch)) {
      Renaming& renamed = renamed_in[stretch];
      const Pass pass = is_backward(nodes[i]) ? Pass::kInputGrad : nodes[i].tag.pass;
      const Tag tag{pass, nodes[i].tag.unit, -1};
      ValueId full = casts.front().inputs[0];
      for (const Node& cast : casts) {
        insertions[i].push_back(clone_node(graph, cast, {full}, tag, renamed));
        full = insertions[i].back().outputs[0];
      }
      insertions[i].push_back(clone_node(graph, views, {full}, tag, renamed));
    }
    rename_inputs(nodes[i], renamed_in[stretch]);
  }
}

// By unit: the first of the units whose weights are gathered together with its own.
std::vector<int> first_gathered_with(const ParameterLayout& layout, const StageLayout& stages,
                                     int64_t blocks) {
  std::vector<int> first;
  for (int unit = 0; unit < layout.num_units; ++unit) {
    const bool joins = unit > 1 && unit < layout.num_units - 1 &&
                       stages.stage_of(unit) == stages.stage_of(unit - 1) &&
                       unit - first.back() < blocks;
    first.push_back(joins ? first.back() : unit);
  }
  return first;
}

}  // namespace

void regather_activations(Graph& graph, const Mesh& mesh, const ParameterLayout& layout) {
  const int head_unit = layout.num_units - 1;
  Insertions insertions;
  const std::vector<std::vector<size_t>> readers = find_readers(graph);
  // Nothing changes in the nodes meanwhile but inputs of gradients.
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    const bool gathers = node.op == OpKind::kCast && node.tag.pass == Pass::kForward &&
                         node.attrs.bucket < 0 && communicates(graph, node, mesh) &&
                         graph.type(node.inputs[0]).on(Axis::kTp) == split(0) &&
                         moving_kind(graph, node, mesh) == CastKind::kAllGather;
    if (gathers && node.tag.unit != head_unit) {
      regather_activation(graph, node, readers, insertions);
    }
  }
  if (insertions.empty()) return;
  insert_nodes(graph, std::move(insertions));
  check_graph(graph, "regather_activations");
}

void regather_weights(Graph& graph, const ParameterLayout& layout) {
  const Stretches stretches(graph, layout.num_units - 1);
  Insertions insertions;
  for (const auto& [views_at, use] : find_bucket_uses(graph)) {
    regather_bucket(graph, views_at, use, stretches, insertions);
  }
  insert_nodes(graph, std::move(insertions));
  check_graph(graph, "regather_weights");
}

void prefetch_gathers(Graph& graph, const ParameterLayout& layout, const StageLayout& stages,
                      int64_t depth, int64_t blocks) {
  const Stretches stretches(graph, layout.num_units - 1);
  const std::vector<int> first = first_gathered_with(layout, stages, blocks);
  const auto stretch_of = [&](const Node& node) {
    const auto [unit, phase] = stretches.of(node);
    return Stretch{first[static_cast<size_t>(unit)], phase};
  };
  // Casts of weights travel with the views that name their parts.
  const auto opens_weights = [](const Node& node) {
    return node.op == OpKind::kViews ||
           (node.op == OpKind::kCast && node.attrs.bucket >= 0 && node.tag.pass != Pass::kReduce);
  };
  const auto computes = [](const Node& node) {
    return node.op != OpKind::kInput && node.op != OpKind::kParameter &&
           node.tag.pass != Pass::kReduce;
  };
  std::vector<Node> rest;
  std::vector<size_t> starts;              // where each stretch begins in `rest`
  std::vector<std::vector<Node>> opening;  // what each stretch needs opened
  std::vector<Node> waiting;
  Stretch current{-1, Phase::kForward};
  for (Node& node : graph.mutable_nodes()) {
    if (opens_weights(node)) {
      waiting.push_back(std::move(node));
      continue;
    }
    if (computes(node)) {
      if (starts.empty() || stretch_of(node) != current) {
        current = stretch_of(node);
        starts.push_back(rest.size());
        opening.emplace_back();
      }
      std::move(waiting.begin(), waiting.end(), std::back_inserter(opening.back()));
      waiting.clear();
    }
    rest.push_back(std::move(node));
  }
  Insertions insertions;
  for (size_t s = 0; s < starts.size(); ++s) {
    std::vector<Node>& place = insertions[starts[s - std::min(s, static_cast<size_t>(depth))]];
    std::move(opening[s].begin(), opening[s].end(), std::back_inserter(place));
  }
  graph.mutable_nodes() = std::move(rest);
  insert_nodes(graph, std::move(insertions));
  check_graph(graph, "prefetch_gathers");
}

}  // namespace tessera
