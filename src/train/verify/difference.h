// How far two sets of tensors are apart: per tensor ||a - b|| / max(||b||, 1e-6 ||all of b||), in
// Frobenius norms. Some gradients are zero by symmetry, and noise over noise says nothing; tensors
// that the model does not see at all are measured by ||all of b||.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "train/weights/weights.h"

namespace tessera {

struct Difference {
  std::string name;
  double relative = 0;  // NaN where a value is not finite
};

// Both in the same order, b the reference.
std::vector<Difference> differences(std::span<const LogicalValues> a,
                                    std::span<const LogicalValues> b);
double norm(std::span<const double> values);
// The difference of one tensor, without the floor.
double relative_difference(std::span<const double> a, std::span<const double> b, double floor = 0);

// Whether a difference is above the tolerance; NaN is.
bool exceeds(double relative, double tolerance);

}  // namespace tessera
