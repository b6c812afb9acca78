// The topic "placements": which part of every tensor each rank holds, and what the operations of a
// transformer block do with it, casts and their collectives among them.
#pragma once

#include "api/show/topic.h"

namespace tessera {

ShowTopic placements_topic();

}  // namespace tessera
