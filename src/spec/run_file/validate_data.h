// What of [data] and [eval] contradicts itself or the rest of the run.
#pragma once

#include "spec/run_spec.h"

namespace tessera {

// Throws ConfigError.
void check_data(const RunSpec& spec);

}  // namespace tessera
