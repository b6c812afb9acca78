// A RunPlan as a picture: memory by category of every pipeline rank against the device's limit, and
// what a step's time goes to.
#pragma once

#include <string>

#include "plan/run_plan.h"

namespace tessera {

std::string run_plan_svg(const RunPlan& plan);

}  // namespace tessera
