// The gradients of one norm become one instruction where they stand near each other, so that a
// device reads their rows once: those of weight and bias, and where the input gradient is of the
// same part of the schedule, all of them. The arithmetic stays the same.
#pragma once

#include <vector>

#include "compile/lower/instances.h"
#include "compile/program/program.h"

namespace tessera {

// Before events: nothing waits for anything yet. `places` goes along with the instructions.
void fuse_norm_gradients(Program& program, const std::vector<Region>& region_of,
                         std::vector<InstructionPlace>& places);

}  // namespace tessera
