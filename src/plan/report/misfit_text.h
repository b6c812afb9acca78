// Why a plan does not fit, and what would make it fit.
#pragma once

#include <functional>
#include <string>

#include "plan/plan.h"

namespace tessera {

// Settings of a change as flags to add to the command.
using FlagsOf = std::function<std::string(const FitChange&)>;
std::string set_flags(const FitChange& change);  // "--set A --set B"

// Which rank, by how much, the largest part.
std::string misfit_sentence(const Plan& plan);
// The same, and what would help.
std::string misfit_text(const Plan& plan, const FlagsOf& flags = set_flags);

std::string short_seconds(double value);  // "1.234 s", "5.678 ms", "9.0 us"

}  // namespace tessera
