// The topic "schedule": what every rank of a pipeline does and when, played through with times that
// the request gives; what it keeps meanwhile, and the bubble beside the formula of the literature.
#pragma once

#include "api/show/topic.h"

namespace tessera {

ShowTopic schedule_topic();

}  // namespace tessera
