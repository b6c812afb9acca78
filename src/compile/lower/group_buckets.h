// The optimizer's kernels on neighbouring buckets become one instruction, so that a device has few
// launches at the end of a step, however many small buckets there are. Every bucket keeps its
// arithmetic and its own sum.
#pragma once

#include <vector>

#include "compile/lower/events.h"
#include "compile/program/program.h"

namespace tessera {

// Before events: nothing waits for anything yet. Only instructions that follow each other are
// grouped, at most kMostGroupedBuckets. `places` goes along with the instructions.
void group_buckets(Program& program, std::vector<InstructionPlace>& places);

}  // namespace tessera
