// The ranks that a launcher started, held against the mesh of a run.
#pragma once

#include "launch/environment.h"
#include "spec/run_spec.h"

namespace tessera {

// Throws ConfigError, with meshes that fit, unless as many ranks were started as the mesh has.
void require_started_ranks(const RunSpec& spec, const LaunchContext& context);

}  // namespace tessera
