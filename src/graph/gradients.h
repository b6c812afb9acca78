// The gradients of values that are known so far, and how gradient rules add to them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tessera {

class Gradients {
 public:
  Gradients(Graph& graph, bool narrow) : graph_(graph), narrow_(narrow) {}

  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] bool narrow() const { return narrow_; }  // weight gradients in the storage type
  // kNoValue: none so far.
  [[nodiscard]] ValueId of(ValueId v) const {
    const auto found = known_.find(v);
    return found == known_.end() ? kNoValue : found->second;
  }
  [[nodiscard]] std::string name(ValueId v) const {
    return fmt::format("d({})", graph_.value(v).name);
  }

  // The gradient of `of` gets the output of `op`, added to what is there already.
  void contribute(ValueId of, OpKind op, std::vector<ValueId> inputs, const Attrs& attrs, Tag tag);
  // Gets `dy`.
  void contribute_value(ValueId of, ValueId dy, Tag tag);
  // Gets the output of `op`, which makes a weight gradient; `tag` is that of the forward node.
  void contribute_weight(ValueId of, OpKind op, std::vector<ValueId> inputs, Attrs attrs, Tag tag);
  // One op makes the gradients of two values.
  void contribute_pair(ValueId first, ValueId second, OpKind op, const std::vector<ValueId>& inputs,
                       const Attrs& attrs, Tag tag);
  // A node that is no contribution yet.
  ValueId add(OpKind op, const std::vector<ValueId>& inputs, const std::string& name,
              const Attrs& attrs, Tag tag) {
    return graph_.add_one(op, inputs, name, attrs, tag);
  }

 private:
  Graph& graph_;
  bool narrow_;
  std::map<ValueId, ValueId> known_;
};

inline Tag with_pass(Tag tag, Pass pass) {
  tag.pass = pass;
  return tag;
}
inline Tag input_grad(const Node& node) { return with_pass(node.tag, Pass::kInputGrad); }

}  // namespace tessera
