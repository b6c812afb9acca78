// What every rank does when in a training step, without running it.
#pragma once

#include <string>

#include "tessera/answer.h"

namespace tessera {

// As `tessera simulate --json`; with "schedule_only": true, the pipeline schedule alone.
Json simulate(const Json& request);

// The same as a picture: as `tessera simulate --svg`.
std::string simulation_picture(const Json& request);

}  // namespace tessera
