#include "data/template/functions/access.h"
#include "data/template/functions/filters.h"
#include "data/template/renderer.h"
#include "data/template/values/write.h"

namespace tessera::jinja {

Renderer::Flow Renderer::run_block(const Block& block) {
  for (const Statement& statement : block) {
    const Flow flow = run_statement(statement);
    if (flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

Renderer::Flow Renderer::run_statement(const Statement& statement) {
  const Deeper deeper(*this, statement.line);
  return std::visit([&](const auto& node) { return run(node); }, statement.node);
}

void Renderer::write(std::string_view text) {
  const bool final = out_ == &rendered_.text;
  if (!final) budget_.make(text.size());
  const auto size = static_cast<int64_t>(out_->size() + text.size());
  if (final && size > budget_.limits().output_bytes) {
    fault("the text is longer than {} bytes: shorten the conversation",
          budget_.limits().output_bytes);
  }
  out_->append(text);
}

Renderer::Flow Renderer::run(const TextNode& node) {
  write(node.text);
  return Flow::kOn;
}

Renderer::Flow Renderer::run(const PrintNode& node) {
  const Value value = eval(*node.value);
  if (const std::string* text = value.text()) {
    write(*text);
  } else {
    write(text_of(budget_, value));
  }
  return Flow::kOn;
}

Renderer::Flow Renderer::run(const ForNode& node) {
  const size_t outer = scopes_.current();
  Loop::Accept accept;
  if (node.condition != nullptr) {
    accept = [&](const Value& value) {
      const Scopes::Guard scope(scopes_, outer);
      assign(node.target, value);
      return truth(eval(*node.condition));
    };
  }
  // As in Jinja, `else` asks whether the end of the body was reached: not after break or continue.
  bool reached_end = false;
  const auto loop = std::make_shared<Loop>(iterate(budget_, eval(*node.values)), accept);
  {
    const Scopes::Guard scope(scopes_, outer);
    while (const Value* value = loop->advance()) {
      const Value item = *value;
      budget_.step();
      scopes_.clear();
      set_name("loop", Value(loop));
      assign(node.target, item);
      const Flow flow = run_block(node.body);
      reached_end = reached_end || flow == Flow::kOn;
      if (flow == Flow::kBreak) break;
    }
    loop->close();
  }
  if (reached_end || node.otherwise.empty()) return Flow::kOn;
  const Scopes::Guard scope(scopes_, outer);
  return run_block(node.otherwise);
}

Renderer::Flow Renderer::run(const IfNode& node) {
  for (const auto& [condition, body] : node.branches) {
    if (truth(eval(*condition))) return run_block(body);
  }
  return run_block(node.otherwise);
}

Renderer::Flow Renderer::run(const SetNode& node) {
  assign(node.target, eval(*node.value));
  return Flow::kOn;
}

std::string Renderer::captured(const Block& body) {
  const Scopes::Guard scope(scopes_, scopes_.current());
  std::string text;
  std::string* outer = std::exchange(out_, &text);
  run_block(body);
  out_ = outer;
  return text;
}

Value Renderer::filtered(const Expr* filter, Value value) {
  if (filter == nullptr) return value;
  filter_input_ = std::move(value);
  return eval(*filter);
}

Renderer::Flow Renderer::run(const SetBlockNode& node) {
  assign(node.target, filtered(node.filter.get(), make_text(budget_, captured(node.body))));
  return Flow::kOn;
}

Renderer::Flow Renderer::run(const FilterBlockNode& node) {
  write(text_of(budget_, filtered(node.filter.get(), make_text(budget_, captured(node.body)))));
  return Flow::kOn;
}

Renderer::Flow Renderer::run(const std::unique_ptr<MacroNode>& node) {
  scopes_.set(node->symbol, make_macro(*node));
  return Flow::kOn;
}

Renderer::Flow Renderer::run(const CallBlockNode& node) {
  const Value function = eval(*node.call->parts.front());
  Arguments arguments = eval_arguments(*node.call);
  arguments.named.emplace_back("caller", make_macro(*node.caller));
  write(text_of(budget_, call(function, arguments)));
  return Flow::kOn;
}

Renderer::Flow Renderer::run(const WithNode& node) {
  std::vector<Value> values;
  for (const auto& [target, value] : node.values) values.push_back(eval(*value));
  const Scopes::Guard scope(scopes_, scopes_.current());
  for (size_t i = 0; i < values.size(); ++i) assign(node.values[i].first, values[i]);
  return run_block(node.body);
}

Renderer::Flow Renderer::run(const GenerationNode& node) {
  const Scopes::Guard scope(scopes_, scopes_.current());
  const size_t begin = out_->size();
  run_block(node.body);
  if (out_->size() > begin) rendered_.generated.push_back({begin, out_->size()});
  return Flow::kOn;
}

Renderer::Flow Renderer::run(const BreakNode& /*node*/) { return Flow::kBreak; }

Renderer::Flow Renderer::run(const ContinueNode& /*node*/) { return Flow::kContinue; }

void Renderer::assign(const Target& target, const Value& value) {
  if (!target.elements.empty()) {
    const std::vector<Value> values = iterate(budget_, value);
    if (values.size() != target.elements.size()) {
      fault("{} values for {} names", values.size(), target.elements.size());
    }
    for (size_t i = 0; i < values.size(); ++i) assign(target.elements[i], values[i]);
    return;
  }
  if (target.attribute.empty()) {
    scopes_.set(target.symbol, value);
    return;
  }
  const Value* held = scopes_.find(target.symbol);
  const auto* space = held == nullptr ? nullptr : held->as<Namespace*>();
  if (space == nullptr) {
    fault("'{0}.{1}' is set, but '{0}' is no namespace: begin with {{% set {0} = namespace() %}}",
          target.name, target.attribute);
  }
  for (auto& [name, old] : (*space)->attributes) {
    if (name == target.attribute) {
      old = value;
      return;
    }
  }
  (*space)->attributes.emplace_back(target.attribute, value);
}

}  // namespace tessera::jinja
