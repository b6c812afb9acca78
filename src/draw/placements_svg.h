// The mesh and the placements as a picture: one column per rank under its coordinates, one row per
// tensor of the rank's first block, drawn whole with the rank's part filled.
#pragma once

#include <string>
#include <vector>

#include "compile/step.h"

namespace tessera {

std::string placements_svg(const StepGraph& step, const std::vector<Program>& programs);

}  // namespace tessera
