#include "api/explain.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "api/fields.h"
#include "api/schema.h"
#include "base/error.h"
#include "base/text/text.h"
#include "cost/explain/topic.h"

namespace tessera {

ExplainQuery explain_query(const nlohmann::json& request) {
  ExplainQuery query;
  Fields fields(request, "explain");
  fields.text("topic", query.topic);
  if (const nlohmann::json* given = fields.object("given")) {
    for (const auto& [name, value] : given->items()) {
      require_config(value.is_string() || value.is_number(),
                     "explain: given.{} is of type {}: expected a text or a number", name,
                     value.type_name());
      query.given[name] = value.is_string() ? value.get<std::string>() : value.dump();
    }
  }
  fields.finish();
  return query;
}

Explanation explain(const ExplainQuery& query, const Surroundings& around) {
  const Topic& topic = find_topic(query.topic);
  std::vector<std::string_view> known;
  for (const Parameter& parameter : topic.parameters) known.push_back(parameter.name);
  for (const auto& [name, text] : query.given) {
    const bool is_known = std::find(known.begin(), known.end(), name) != known.end();
    require_config(is_known, "explain {}: nothing is called {}; {}", topic.name, in_quotes(name),
                   suggestion(name, known, "values"));
  }
  return explain(topic, query.given, around.read);
}

nlohmann::ordered_json explain_json(const Explanation& explanation) {
  nlohmann::ordered_json json = {{"schema_version", kSchemaVersion}, {"kind", "explanation"}};
  json.update(json_of(explanation));
  return json;
}

}  // namespace tessera
