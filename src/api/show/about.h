// The topic "about": which Tessera this is, and which catalogue it has in it.
#pragma once

#include "api/show/topic.h"

namespace tessera {

ShowTopic about_topic();

}  // namespace tessera
