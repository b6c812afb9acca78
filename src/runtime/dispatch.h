// One instruction of the compute stream -> one kernel call.
#pragma once

#include "compile/program.h"
#include "kernels/kernels.h"

namespace tessera {

// What changes from step to step; the Program itself does not.
struct StepParams {
  double lr = 0;
  int64_t step = 1;   // 1 for the first
  uint64_t seed = 0;  // of dropout
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0;
  double clip = 0;        // global norm; 0: off
  double loss_scale = 1;  // of every gradient until the update
};

// Values that all ranks agree on after a step.
struct StepOutcome {
  double loss = 0;    // per unmasked token of the global batch
  double tokens = 0;  // unmasked
  // Of the last update, which is the only one unless the schedule is asynchronous.
  double update_tokens = 0;
  double grad_norm = 0;  // before clipping
  [[nodiscard]] bool finite() const;
  [[nodiscard]] bool overflowed() const;  // the gradient alone is not finite
};
StepOutcome outcome_of(const Tensor& metrics, double loss_scale);

// `tensors`: one per buffer of the program. Allocates nothing.
void run_kernel(kernels::Context& context, const Instruction& instruction,
                std::span<const Tensor> tensors, const StepParams& params);

}  // namespace tessera
