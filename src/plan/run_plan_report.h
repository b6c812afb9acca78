// A RunPlan for people and for programs.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "plan/fit_changes.h"
#include "plan/run_plan.h"

namespace tessera {

// `tokens`: how many the whole training is to have; 0: nobody asked. `checked`: misfit_text()
// follows, so that nothing need point to it.
std::string run_plan_text(const RunPlan& plan, int64_t tokens, bool checked = false);
nlohmann::ordered_json run_plan_json(const RunPlan& plan, int64_t tokens);

// Settings of a change as flags to add to the command.
using FlagsOf = std::function<std::string(const FitChange&)>;
std::string set_flags(const FitChange& change);  // "--set A --set B"

// Why a plan does not fit: which rank, by how much, the largest part, and what would help.
std::string misfit_text(const RunPlan& plan, const FitAdvice& advice,
                        const FlagsOf& flags = set_flags);
nlohmann::ordered_json advice_json(const RunPlan& plan, const FitAdvice& advice);

}  // namespace tessera
