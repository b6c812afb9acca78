// A plan for people.
#pragma once

#include <functional>
#include <string>

#include "plan/plan.h"

namespace tessera {

// `checked`: misfit_text() follows, so that nothing need point to it.
std::string plan_text(const Plan& plan, bool checked = false);

// Settings of a change as flags to add to the command.
using FlagsOf = std::function<std::string(const FitChange&)>;
std::string set_flags(const FitChange& change);  // "--set A --set B"

// Why a plan does not fit: which rank, by how much, the largest part, and what would help.
std::string misfit_text(const Plan& plan, const FlagsOf& flags = set_flags);

}  // namespace tessera
