// A plan as a picture: a bar of memory by category for every kind of rank, the same in numbers, and
// what each sends per step by group and collective. Ranks with equal memory and traffic share a
// column. Where a cluster prices the step, also every place in the pipeline against the device's
// limit, and what a step's time goes to.
#pragma once

#include <string>

#include "plan/plan.h"

namespace tessera {

std::string plan_svg(const Plan& plan);

}  // namespace tessera
