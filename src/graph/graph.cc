#include "graph/graph.h"

namespace tessera {

ValueId Graph::new_value(const std::string& name, const TensorType& type) {
  values_.push_back({name, type});
  return static_cast<ValueId>(values_.size()) - 1;
}

std::vector<ValueId> Graph::add(OpKind op, const std::vector<ValueId>& inputs,
                                const std::vector<std::string>& names, Attrs attrs, Tag tag,
                                bool accumulate) {
  Node node{op, names.front(), inputs, {}, accumulate, std::move(attrs), tag};
  const std::vector<TensorType> types = infer_types(*this, node);
  TESSERA_CHECK(types.size() == names.size(), "{} has {} outputs, {} names given", name_of(op),
                types.size(), names.size());
  for (size_t i = 0; i < types.size(); ++i) node.outputs.push_back(new_value(names[i], types[i]));
  nodes_.push_back(std::move(node));
  return nodes_.back().outputs;
}

ValueId Graph::add_one(OpKind op, const std::vector<ValueId>& inputs, const std::string& name,
                       Attrs attrs, Tag tag, bool accumulate) {
  return add(op, inputs, {name}, std::move(attrs), tag, accumulate).front();
}

ValueId Graph::add_source(OpKind op, const std::string& name, const TensorType& type, Tag tag,
                          int bucket) {
  Node node{op, name, {}, {new_value(name, type)}, false, {}, tag};
  node.attrs.bucket = bucket;
  nodes_.push_back(std::move(node));
  return nodes_.back().outputs.front();
}

ValueId Graph::cast(ValueId x, AxisSet axes, Placement to, const std::string& name, Tag tag) {
  Attrs attrs;
  attrs.axes = axes;
  attrs.to = to;
  return add_one(OpKind::kCast, {x}, name, attrs, tag);
}

void check_graph(const Graph& graph, std::string_view after_pass) {
  std::vector<bool> written(graph.num_values(), false);
  for (const Node& node : graph.nodes()) {
    for (const ValueId in : node.inputs) {
      if (!written[static_cast<size_t>(in)]) {
        throw TypeError(fmt::format("after pass {}: {} '{}' reads '{}' before it is written",
                                    after_pass, name_of(node.op), node.name, graph.value(in).name));
      }
    }
    if (node.op != OpKind::kInput && node.op != OpKind::kParameter && node.op != OpKind::kCache) {
      const std::vector<TensorType> types = infer_types(graph, node);
      for (size_t i = 0; i < types.size(); ++i) {
        const Value& out = graph.value(node.outputs[i]);
        if (!(types[i] == out.type)) {
          std::string of;
          for (const ValueId in : node.inputs) {
            of += fmt::format("{}'{}'", of.empty() ? "" : ", ", graph.value(in).name);
          }
          throw TypeError(fmt::format("after pass {}: '{}' is {} but {} of {} gives {}", after_pass,
                                      out.name, to_string(out.type), name_of(node.op), of,
                                      to_string(types[i])));
        }
      }
    }
    for (const ValueId out : node.outputs) {
      if (written[static_cast<size_t>(out)]) {
        throw TypeError(
            fmt::format("after pass {}: '{}' is written twice", after_pass, graph.value(out).name));
      }
      written[static_cast<size_t>(out)] = true;
    }
  }
}

std::string to_text(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes()) {
    text += fmt::format("{} u{} ", name_of(node.tag.pass), node.tag.unit);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      text += fmt::format("{}{}", i > 0 ? ", " : "", graph.value(node.outputs[i]).name);
    }
    text += fmt::format(" = {}", name_of(node.op));
    if (node.op == OpKind::kCast) {
      text += fmt::format("[{} -> {}]", name_of(node.attrs.axes), to_string(node.attrs.to));
    }
    if (node.accumulate) text += "[+=]";
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      text += fmt::format("{}{}", i > 0 ? ", " : " ", graph.value(node.inputs[i]).name);
    }
    if (!node.outputs.empty()) {
      text += fmt::format("  : {}", to_string(graph.type(node.outputs.front())));
    }
    text += '\n';
  }
  return text;
}

}  // namespace tessera
