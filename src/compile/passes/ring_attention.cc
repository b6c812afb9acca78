#include "compile/passes/ring_attention.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {
namespace {

class RingExpansion {
 public:
  RingExpansion(Graph& graph, const Mesh& mesh) : graph_(graph), ranks_(mesh.size(Axis::kCp)) {}

  void run() {
    std::vector<Node> before;
    before.swap(graph_.mutable_nodes());
    for (Node& node : before) {
      if (!over_split_keys(node)) {
        graph_.mutable_nodes().push_back(std::move(node));
      } else if (node.op == OpKind::kAttention) {
        expand_forward(node);
      } else {
        expand_backward(node);
      }
    }
  }

 private:
  [[nodiscard]] bool over_split_keys(const Node& node) const {
    return (node.op == OpKind::kAttention || node.op == OpKind::kAttentionGrad) &&
           graph_.type(node.inputs[1]).on(Axis::kCp) == split(0);
  }
  [[nodiscard]] const std::string& name(ValueId value) const { return graph_.value(value).name; }

  ValueId shift(ValueId value, const std::string& to, Tag tag) {
    Attrs attrs;
    attrs.axes = Axis::kCp;
    return graph_.add_one(OpKind::kShift, {value}, to, attrs, tag);
  }
  // Keys and values for the hop after `hop`, issued before anything that uses those of `hop`.
  ValueId next_keys(const Node& node, ValueId kv, int64_t hop) {
    if (hop + 1 == ranks_) return kNoValue;
    const char* again = node.op == OpKind::kAttention ? "" : ".again";
    return shift(kv, fmt::format("{}.hop{}{}", name(node.inputs[1]), hop + 1, again), node.tag);
  }
  static Attrs at_hop(const Node& node, int64_t hop) {
    Attrs attrs = node.attrs;
    attrs.hop = hop;
    return attrs;
  }

  void expand_forward(const Node& node);
  void expand_backward(const Node& node);
  void produce(ValueId made, ValueId as, Tag tag);

  Graph& graph_;
  int64_t ranks_;
};

// What was made becomes `as`, which the rest of the graph reads.
void RingExpansion::produce(ValueId made, ValueId as, Tag tag) {
  if (graph_.type(made) == graph_.type(as)) {
    std::vector<Node>& nodes = graph_.mutable_nodes();
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {  // among the last ones
      const auto out = std::find(node->outputs.begin(), node->outputs.end(), made);
      if (out == node->outputs.end()) continue;
      *out = as;
      return;
    }
    return;
  }
  Attrs attrs;
  attrs.dtype = graph_.type(as).dtype;
  graph_.add_one(OpKind::kConvert, {made}, name(as), attrs, tag);
  graph_.mutable_nodes().back().outputs = {as};
}

void RingExpansion::expand_forward(const Node& node) {
  ValueId kv = node.inputs[1];
  std::vector<ValueId> known;  // o and lse over the keys met so far
  for (int64_t hop = 0; hop < ranks_; ++hop) {
    const ValueId next = next_keys(node, kv, hop);
    std::vector<ValueId> inputs = {node.inputs[0], kv};
    inputs.insert(inputs.end(), known.begin(), known.end());
    known = graph_.add(OpKind::kAttentionPart, inputs,
                       {fmt::format("{}.hop{}", name(node.outputs[0]), hop),
                        fmt::format("{}.hop{}", name(node.outputs[1]), hop)},
                       at_hop(node, hop), node.tag);
    kv = next;
  }
  produce(known[0], node.outputs[0], node.tag);
  produce(known[1], node.outputs[1], node.tag);
}

void RingExpansion::expand_backward(const Node& node) {
  ValueId kv = node.inputs[1];
  ValueId dq = kNoValue;
  ValueId dkv = kNoValue;  // of the keys at this hop: the sum over the ranks that have met them
  const std::string dkv_name = name(node.outputs[1]);
  for (int64_t hop = 0; hop < ranks_; ++hop) {
    const ValueId next = next_keys(node, kv, hop);
    if (hop > 0) dkv = shift(dkv, fmt::format("{}.hop{}", dkv_name, hop), node.tag);
    std::vector<ValueId> inputs = {node.inputs.begin(), node.inputs.begin() + 5};
    if (hop > 0) inputs.push_back(dq);
    inputs[1] = kv;
    const std::vector<ValueId> here =
        graph_.add(OpKind::kAttentionGradPart, inputs,
                   {fmt::format("{}.hop{}", name(node.outputs[0]), hop),
                    fmt::format("{}.part{}", dkv_name, hop)},
                   at_hop(node, hop), node.tag);
    dq = here[0];
    dkv = hop == 0 ? here[1]
                   : graph_.add_one(OpKind::kAdd, {dkv, here[1]},
                                    fmt::format("{}.sum{}", dkv_name, hop), {}, node.tag);
    kv = next;
  }
  dkv = shift(dkv, fmt::format("{}.home", dkv_name), node.tag);
  produce(dq, node.outputs[0], node.tag);
  produce(dkv, node.outputs[1], node.tag);
}

}  // namespace

void expand_ring_attention(Graph& graph, const Mesh& mesh) {
  if (mesh.size(Axis::kCp) == 1) return;
  RingExpansion(graph, mesh).run();
  check_graph(graph, "expand_ring_attention");
}

}  // namespace tessera
