// The topic "tp_matmul": a product that ranks share, with its numbers, the part of each rank, and
// the collectives that its placements ask for.
#pragma once

#include "api/show/topic.h"

namespace tessera {

ShowTopic tp_matmul_topic();

}  // namespace tessera
