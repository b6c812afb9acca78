#include "train/session/step_params.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tessera {

double learning_rate(const OptimizerSpec& optimizer, int64_t step, int64_t steps) {
  if (step <= optimizer.warmup) {
    return optimizer.lr * static_cast<double>(step) / static_cast<double>(optimizer.warmup);
  }
  const auto span = static_cast<double>(std::max<int64_t>(1, steps - optimizer.warmup));
  const double progress = std::min(1.0, static_cast<double>(step - 1 - optimizer.warmup) / span);
  return optimizer.min_lr +
         (optimizer.lr - optimizer.min_lr) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

StepParams step_params(const RunSpec& spec, int64_t step) {
  StepParams params;
  params.lr = learning_rate(spec.optimizer, step, spec.train.steps);
  params.step = step;
  params.seed = spec.train.seed;
  params.beta1 = spec.optimizer.beta1;
  params.beta2 = spec.optimizer.beta2;
  params.eps = spec.optimizer.eps;
  params.weight_decay = spec.optimizer.weight_decay;
  params.clip = spec.optimizer.clip;
  return params;
}

}  // namespace tessera
