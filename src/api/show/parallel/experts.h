// The topic "experts": which experts a router chooses for each token, how evenly, what a capacity
// drops, and what travels between the ranks that share the experts.
#pragma once

#include "api/show/topic.h"

namespace tessera {

ShowTopic experts_topic();

}  // namespace tessera
