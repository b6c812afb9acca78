// What all ranks do together and any of them may find damaged: a checkpoint that they load.
#pragma once

#include <functional>
#include <optional>

#include "base/error.h"
#include "comm/communicator.h"

namespace tessera {

struct LoadFailure {
  int rank = 0;
  Error why;
};

// All ranks: runs `load`. Returns, the same on every rank, what the first of them found damaged,
// absent or not to be read from its disk; nothing: all have loaded. Throws whatever else `load`
// throws.
std::optional<LoadFailure> try_to_load(Communicator& control, const std::function<void()>& load);

}  // namespace tessera
