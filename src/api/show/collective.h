// The topic "collective": one collective step by step, with real values on their way. What moves
// are the schedules that the communicators execute.
#pragma once

#include "api/show/topic.h"

namespace tessera {

ShowTopic collective_topic();

}  // namespace tessera
