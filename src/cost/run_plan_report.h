// A RunPlan for people and for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cost/fit_changes.h"
#include "cost/run_plan.h"

namespace tessera {

// `tokens`: how many the whole training is to have; 0: nobody asked.
std::string run_plan_text(const RunPlan& plan, int64_t tokens);
nlohmann::ordered_json run_plan_json(const RunPlan& plan, int64_t tokens);

// Why a plan does not fit: which rank, by how much, the largest part, and what would help.
std::string misfit_text(const RunPlan& plan, const std::vector<FitChange>& changes);

}  // namespace tessera
