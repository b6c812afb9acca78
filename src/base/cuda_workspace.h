// Scratch bytes that the CUDA body of a kernel needs: base/workspace.h for the other device. Pure
// formulas, shared by the compiler (which plans them) and the bodies (which check them).
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace tessera::workspace::cuda {

// Products: what cuBLASLt may use, whatever the shape.
constexpr int64_t kMatmulBytes = int64_t{32} << 20;

}  // namespace tessera::workspace::cuda
