#include "data/template/chat_template.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/template/renderer.h"
#include "data/template/syntax/parser.h"

namespace tessera {

ChatTemplate ChatTemplate::parse(const std::string& source, const std::string& name,
                                 const TemplateLimits& limits) {
  require_config(static_cast<int64_t>(source.size()) <= limits.source_bytes,
                 "{}: the template has {} bytes; the limit is {}", name, source.size(),
                 limits.source_bytes);
  ChatTemplate result;
  result.name_ = name;
  result.limits_ = limits;
  result.tree_ =
      std::make_shared<const jinja::Tree>(jinja::parse_template(source, jinja::Place(name)));
  return result;
}

bool ChatTemplate::marks_generation() const { return tree_->has_generation; }

RenderedChat ChatTemplate::render(const nlohmann::ordered_json& context,
                                  const std::optional<std::tm>& now) const {
  jinja::Budget budget(limits_);
  return render(context, now, budget);
}

RenderedChat ChatTemplate::render(const nlohmann::ordered_json& context,
                                  const std::optional<std::tm>& now, jinja::Budget& budget) const {
  const jinja::Place place(name_);
  return jinja::Renderer(*tree_, place, budget, now).run(context);
}

}  // namespace tessera
