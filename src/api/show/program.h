// The topic "program": what one rank does in a step, instruction by instruction with the times of
// the simulation, and its memory map: where every buffer lies in its arena, and when.
#pragma once

#include "api/show/topic.h"

namespace tessera {

ShowTopic program_topic();

}  // namespace tessera
