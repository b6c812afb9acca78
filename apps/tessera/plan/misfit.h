// Why a run does not fit, with what would help as flags to add to the command that was typed.
#pragma once

#include <string>

#include "plan/plan.h"

namespace tessera {

// `mesh`: what --mesh said; empty: it was not given.
std::string misfit_with_flags(const Plan& plan, const std::string& mesh);

}  // namespace tessera
