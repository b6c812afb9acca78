// The same run with one key set to each of several values, side by side.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace tessera {

// One value and what becomes of the run with it.
struct VariedRun {
  std::string value;
  std::optional<Plan> plan;
  std::string refused = "";  // why there is none
};

struct Variation {
  std::string key;  // "train.micro_batch"
  std::vector<VariedRun> runs;
};

// The request with one more setting, "train.micro_batch=4", on a cluster that prices the step.
using RequestWith = std::function<PlanRequest(const std::string& setting)>;

// `text`: "KEY=A,B,…". A value that no run can have is refused alone; ConfigError for text that
// names no key or no value, and where every value is refused.
Variation vary_plan(const std::string& text, const RequestWith& request_with);

std::string variation_text(const Variation& variation);
nlohmann::ordered_json variation_json(const Variation& variation);

}  // namespace tessera
