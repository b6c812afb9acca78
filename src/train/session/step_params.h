// What the optimizer is told in each step of a run.
#pragma once

#include <cstdint>

#include "base/step_params.h"
#include "spec/run_spec.h"

namespace tessera {

// The rate of step `step` of `steps`, which count from 1; w is optimizer.warmup. Up to w: lr * step
// / w. Then
//   constant      lr
//   linear        lr - (lr - min_lr) * x          x = (step - 1 - w) / (steps - w)
//   cosine        min_lr + (lr - min_lr) * (1 + cos(pi x)) / 2
//   wsd           lr, and linear over the last d steps: x = (step - 1 - (steps - d)) / d
//   inverse_sqrt  lr * sqrt(max(w, 1) / step), at least min_lr
double learning_rate(const OptimizerSpec& optimizer, int64_t step, int64_t steps);
StepParams step_params(const RunSpec& spec, int64_t step);

}  // namespace tessera
