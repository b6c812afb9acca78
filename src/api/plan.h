// The requests "plan", "vary" and "emit": a run on a cluster, or on this machine, without running
// it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "api/split.h"
#include "api/surroundings.h"
#include "plan/plan.h"
#include "plan/report/variation.h"

namespace tessera {

struct PlanQuery {
  PlanQuery() { source.may_be_model = true; }

  RunSource source = {};
  FailureFlags failures = {};  // with split.tokens
  SplitFlags split = {};       // a model, a cluster and a split instead of a run file, or over one
  // Without it a plan is the same but for what takes many plans to find: what would make it fit,
  // and what the engine's guesses do to the step. For callers that must answer at once.
  bool advice = true;
};
PlanQuery plan_query(const nlohmann::json& request);

// What a run file with the changes around it leaves open.
OpenSettings open_settings_of(const RunSource& source, const FileReader& read);

// What the planner is asked: with what nobody said filled in, from the cluster or the machine, and
// with all that JSON shows. `programs_for` is a flag that needs every rank's Program; empty: none.
PlanRequest plan_request(const PlanQuery& query, const Surroundings& around,
                         std::string_view programs_for = "");

// The same run with a key set to each of several values, or with several keys each to each of
// theirs.
struct VaryQuery {
  PlanQuery run = {};
  std::vector<std::string> vary = {};  // "train.micro_batch=1,2,4"
};
VaryQuery vary_query(const nlohmann::json& request);
Variation vary(const VaryQuery& query, const Surroundings& around);

// The same run as settings of another system.
struct EmitQuery {
  PlanQuery run = {};
  std::string system = "";  // of spec/emit/emit_settings.h
};
inline constexpr const char* kSystems = "megatron|torchtitan|deepspeed|nanotron";
EmitQuery emit_query(const nlohmann::json& request);
std::string emit(const EmitQuery& query, const Surroundings& around);
nlohmann::ordered_json emit_json(const EmitQuery& query, const std::string& settings);

}  // namespace tessera
