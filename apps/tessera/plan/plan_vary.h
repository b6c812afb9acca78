// `tessera plan --vary KEY=A,B,…`: the same run with one key set to each of several values, side by
// side.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan_command.h"
#include "plan/run_plan.h"

namespace tessera {

// One value and what becomes of the run with it.
struct VariedPlan {
  std::string value;
  std::optional<RunPlan> plan;
  std::string refused = "";  // why there is none
};

struct Variation {
  std::string key;  // "train.micro_batch"
  std::vector<VariedPlan> plans;
};

// `text`: "KEY=A,B,…". A value that no run can have is refused alone; ConfigError for text that
// names no key or no value, and where every value is refused.
Variation vary_plan(const PlanOptions& options, const std::string& text);

std::string variation_text(const Variation& variation);
nlohmann::ordered_json variation_json(const Variation& variation);

}  // namespace tessera
