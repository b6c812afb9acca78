// Why a run does not fit, with what would help as flags to add to the command that was typed.
#pragma once

#include <string>

#include "api/split.h"
#include "plan/plan.h"

namespace tessera {

// `mesh`: what --mesh said; empty: it was not given. `given`: what was said by flags of their own.
std::string misfit_with_flags(const Plan& plan, const std::string& mesh,
                              const SplitFlags& given = {});

}  // namespace tessera
