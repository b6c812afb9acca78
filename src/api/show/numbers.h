// The topic "numbers": what becomes of a number in each type, and of many small updates of a weight
// without and with a master copy.
#pragma once

#include "api/show/topic.h"

namespace tessera {

ShowTopic numbers_topic();

}  // namespace tessera
