// Ranks of a local world as threads.
#pragma once

#include <functional>

#include "comm/local/local_world.h"

namespace tessera {

// Runs f once per rank of the world, at once, each on its own thread. When a rank throws, the world
// is aborted, so that the others leave their waits; the error of the rank that failed first is
// rethrown.
void run_rank_threads(LocalWorld& world, const std::function<void(int rank)>& f);

}  // namespace tessera
