// Proofs about finished Programs. Each throws InternalError naming the instruction.
#pragma once

#include <vector>

#include "compile/program/program.h"

namespace tessera {

// Buffers are written before they are read; every wait has a signal on the other stream; bytes that
// both streams touch are ordered by events.
void check_program(const Program& program);
// Members of each group issue the same collectives in the same order.
void check_collectives(const std::vector<Program>& programs);

}  // namespace tessera
