#pragma once

#include "cost/step/strategy.h"

namespace tessera {

// Refuses sizes that nothing can have, and products of sizes that 64 bits do not hold.
void check(const Workload& workload);

}  // namespace tessera
