// Is a narrow type good enough? The same run in two types, step by step.
#pragma once

#include <string_view>

#include "train/verify/verify.h"

namespace tessera {

// Lets a resolved run compute in `name` ("fp8" with the recipe that it has, or "tensor"). Throws
// ConfigError as a run file would.
void compute_in(RunSpec& spec, std::string_view name);

struct TypesOptions {
  RunSpec mine, other;  // that differ in train.dtype alone
  int64_t steps = 3;
  double tolerance = 0.005;
};
// Loss and norm of the gradient of both, side by side. Equal: the mean loss of the last tenth of
// the steps differs by no more than the tolerance, relative to the other type's.
VerifyReport compare_types(const TypesOptions& options);

}  // namespace tessera
