// Products and the kernels that follow them become one instruction, so that a device can do both
// before it stores a result: a bias and GELU behind a product, the gradient of GELU behind the
// product that makes its input, the sum that is a bias's gradient beside its weight's. The
// arithmetic stays the same.
#pragma once

#include <vector>

#include "compile/lower/instances.h"
#include "compile/program/program.h"

namespace tessera {

// Before events: nothing waits for anything yet. `places` goes along with the instructions.
void fuse_products(Program& program, const std::vector<Region>& region_of,
                   std::vector<InstructionPlace>& places);

}  // namespace tessera
