// What of [optimizer], and of the guard that skips its steps, contradicts itself.
#pragma once

#include "spec/run_spec.h"

namespace tessera {

// Throws ConfigError.
void check_optimizer(const RunSpec& spec);

// wsd: the last steps of `steps`, in which the learning rate falls.
int64_t falling_steps(const OptimizerSpec& optimizer, int64_t steps);

}  // namespace tessera
