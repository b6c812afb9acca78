// The same run with keys set to each of several values, side by side; several keys make a grid.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace tessera {

// A key and its values, as "train.micro_batch=1,2,4" says them.
struct VariedKey {
  std::string text;
  std::string key;
  std::vector<std::string> values;
};
// ConfigError for a text that names no key or no value, for a key that is named twice, and for more
// runs than anybody would read.
std::vector<VariedKey> parse_varied(const std::vector<std::string>& texts);

// A value of every key and what becomes of the run with them.
struct VariedRun {
  std::vector<std::string> values;
  std::optional<Plan> plan;
  std::string refused = "";  // why there is none
};

struct Variation {
  std::vector<std::string> keys;  // "train.micro_batch"
  std::vector<VariedRun> runs;    // the values of the last key change first
};

// The request with more settings, "train.micro_batch=4", on a cluster that prices the step.
using RequestWith = std::function<PlanRequest(const std::vector<std::string>& settings)>;

// A value that no run can have is refused alone; ConfigError where every run is refused.
Variation vary_plan(const std::vector<VariedKey>& keys, const RequestWith& request_with);

std::string variation_text(const Variation& variation);
nlohmann::ordered_json variation_json(const Variation& variation);

}  // namespace tessera
