// A plan for people.
#pragma once

#include <string>

#include "plan/plan.h"

namespace tessera {

// `checked`: misfit_text() follows, so that nothing need point to it.
std::string plan_text(const Plan& plan, bool checked = false);

// Where the time of a step goes.
std::string time_table(const StepTime& time);

}  // namespace tessera
