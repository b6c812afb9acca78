#include "data/template/renderer.h"

#include <nlohmann/json.hpp>

namespace tessera::jinja {

Renderer::Renderer(const Tree& tree, const Place& place, Budget& budget, std::optional<std::tm> now)
    : tree_(tree), place_(place), budget_(budget), now_(now) {
  for (size_t i = 0; i < tree.names.size(); ++i) {
    symbols_.emplace(tree.names[i], static_cast<Symbol>(i));
  }
}

Renderer::Deeper::Deeper(Renderer& renderer, int line) : renderer_(renderer) {
  renderer_.line_ = line;
  renderer_.budget_.step();
  if (renderer_.depth_ >= renderer_.budget_.limits().depth) {
    fault(
        "more than {} blocks, expressions and macros inside each other: look for a macro that "
        "calls itself without end",
        renderer_.budget_.limits().depth);
  }
  ++renderer_.depth_;
}

void Renderer::set_name(std::string_view name, Value value) {
  if (const auto found = symbols_.find(name); found != symbols_.end()) {
    scopes_.set(found->second, std::move(value));
  }
}

RenderedChat Renderer::run(const nlohmann::ordered_json& context) {
  try {
    const Scopes::Guard given(scopes_, Scopes::kNone);
    add_functions();
    for (const auto& [name, value] : context.items()) {
      if (symbols_.contains(name)) set_name(name, from_json(budget_, value));
    }
    const Scopes::Guard top(scopes_, scopes_.current());
    run_block(tree_.body);
  } catch (const TemplateFault& wrong) {
    place_.fail(line_, wrong.what());
  }
  return std::move(rendered_);
}

}  // namespace tessera::jinja
