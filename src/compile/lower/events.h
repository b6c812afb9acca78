// Orders the streams of a Program against each other.
#pragma once

#include <vector>

#include "compile/lower/instances.h"
#include "compile/program/program.h"

namespace tessera {

// A collective waits for the last kernel issued before it. Beyond that an instruction waits for
// whoever wrote what it touches, or still reads what it overwrites. A part of a stage starts when
// the collectives before it that use passing memory are done.
//
// Without `overlap`, a kernel waits for every collective before it: nothing is hidden. Messages
// between stages are not held up, since a stage that waits for one could block another.
void add_events(Program& program, const std::vector<Region>& region_of,
                const std::vector<InstructionPlace>& places, bool overlap = true);

}  // namespace tessera
