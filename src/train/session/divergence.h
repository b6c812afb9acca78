// Finding where the first NaN or Inf of a step came from.
#pragma once

#include <optional>
#include <string>

#include "runtime/executor.h"

namespace tessera {

struct BadTensor {
  size_t instruction = 0;
  std::string description;  // "layers.0.q (linear, forward, micro-batch 1), element 17"
};

// Runs the step once more, looking at every result; `also` (may be empty) is called first. All
// ranks must call it together. Weights do not change: a step that is not finite updates nothing.
std::optional<BadTensor> find_first_nonfinite(Executor& executor, const StepParams& params,
                                              const Executor::Probe& also);

// Whether all of this rank's weights are finite.
bool weights_are_finite(const Executor& executor);

struct FoundTensor {
  int rank = 0;
  BadTensor tensor;
};

// The earliest of what the ranks found, on every rank; among equals that of the lowest rank.
std::optional<FoundTensor> first_over_ranks(Communicator& control,
                                            const std::optional<BadTensor>& mine);

// What ended a run, for people: `skipped_in_a_row` steps before it, if any, and the first tensor
// that is not finite, or the numbers of the step where every tensor is.
std::string describe_divergence(const std::optional<FoundTensor>& first, const StepOutcome& outcome,
                                int64_t skipped_in_a_row, const Mesh& mesh);

}  // namespace tessera
