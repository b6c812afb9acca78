// The topic "topology": a cluster level by level, from a device to all of it, with what a run sends
// over its links.
#pragma once

#include "api/show/topic.h"

namespace tessera {

ShowTopic topology_topic();

}  // namespace tessera
