#include "train/session/step_params.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "spec/run_file/validate_optimizer.h"

namespace tessera {
namespace {

// How much of the steps after `first` lies before `step`.
double share_after(int64_t first, int64_t step, int64_t steps) {
  const auto span = static_cast<double>(std::max<int64_t>(1, steps - first));
  return std::clamp(static_cast<double>(step - 1 - first) / span, 0.0, 1.0);
}

}  // namespace

double learning_rate(const OptimizerSpec& optimizer, int64_t step, int64_t steps) {
  if (step <= optimizer.warmup) {
    return optimizer.lr * static_cast<double>(step) / static_cast<double>(optimizer.warmup);
  }
  const double range = optimizer.lr - optimizer.min_lr;
  switch (optimizer.schedule) {
    case LrSchedule::kConstant:
      return optimizer.lr;
    case LrSchedule::kLinear:
      return optimizer.lr - range * share_after(optimizer.warmup, step, steps);
    case LrSchedule::kCosine:
      return optimizer.min_lr +
             range * 0.5 *
                 (1 + std::cos(std::numbers::pi * share_after(optimizer.warmup, step, steps)));
    case LrSchedule::kWsd:
      return optimizer.lr - range * share_after(std::max(optimizer.warmup,
                                                         steps - falling_steps(optimizer, steps)),
                                                step, steps);
    case LrSchedule::kInverseSqrt:
      return std::max(
          optimizer.min_lr,
          optimizer.lr * std::sqrt(static_cast<double>(std::max<int64_t>(1, optimizer.warmup)) /
                                   static_cast<double>(step)));
  }
  return optimizer.lr;
}

StepParams step_params(const RunSpec& spec, int64_t step) {
  StepParams params;
  params.lr = learning_rate(spec.optimizer, step, spec.train.steps);
  params.step = step;
  params.seed = spec.train.seed;
  params.beta1 = spec.optimizer.beta1;
  params.beta2 = spec.optimizer.beta2;
  params.eps = spec.optimizer.eps;
  params.momentum = spec.optimizer.momentum;
  params.nesterov = spec.optimizer.nesterov;
  params.weight_decay = spec.optimizer.weight_decay;
  params.clip = spec.optimizer.clip;
  return params;
}

}  // namespace tessera
