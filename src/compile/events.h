// Orders the two streams of a Program against each other.
#pragma once

#include <vector>

#include "compile/program.h"

namespace tessera {

// A collective waits for the last kernel issued before it. A kernel waits for a collective that
// wrote what it touches, or still reads what it overwrites. A micro-batch starts when the
// collectives of the one before are done. `storage_of`: the storage of each buffer.
void add_events(Program& program, const std::vector<int>& storage_of);

}  // namespace tessera
