// The request "explain": a calculator's formula, the numbers put in, and the result.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "api/surroundings.h"
#include "cost/explain/explanation.h"

namespace tessera {

struct ExplainQuery {
  std::string topic;
  std::map<std::string, std::string> given;  // values as written, by flag without dashes
};
// "topic", and in "given" the values: texts as on the command line, or numbers.
ExplainQuery explain_query(const nlohmann::json& request);

Explanation explain(const ExplainQuery& query, const Surroundings& around);
nlohmann::ordered_json explain_json(const Explanation& explanation);

}  // namespace tessera
