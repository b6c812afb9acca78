// A plan as a picture, from the Programs that would run: a bar of memory by category for every kind
// of rank, the same in numbers, and what each sends per step by group and collective. Ranks with
// equal memory and traffic share a column.
#pragma once

#include <string>
#include <vector>

#include "compile/step.h"

namespace tessera {

std::string plan_svg(const StepGraph& step, const std::vector<Program>& programs);

}  // namespace tessera
