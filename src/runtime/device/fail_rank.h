// How a rank gives up by itself.
#pragma once

#include <string>

#include "comm/world.h"

namespace tessera {

// Aborts the world, so that the other ranks leave their waits, and throws CommError: "rank 3: …".
[[noreturn]] void fail_rank(CommWorld& world, int rank, const std::string& what);

}  // namespace tessera
