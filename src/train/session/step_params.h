// What the optimizer is told in each step of a run.
#pragma once

#include <cstdint>

#include "base/step_params.h"
#include "spec/run_spec.h"

namespace tessera {

// Linear warm-up, then cosine from lr to min_lr. `step` counts from 1.
double learning_rate(const OptimizerSpec& optimizer, int64_t step, int64_t steps);
StepParams step_params(const RunSpec& spec, int64_t step);

}  // namespace tessera
