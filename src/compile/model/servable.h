// What a step of serving can be.
#pragma once

#include "compile/model/serve_step.h"
#include "spec/run_spec.h"

namespace tessera {

// `spec` must have gone through resolve(). Throws ConfigError, which says what to do instead.
void require_servable(const RunSpec& spec, const ServeStep& shape);

}  // namespace tessera
