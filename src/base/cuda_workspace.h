// Scratch bytes that the CUDA body of a kernel needs: base/workspace.h for the other device. Pure
// formulas, shared by the compiler (which plans them) and the bodies (which check them).
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace tessera::workspace::cuda {

// Products: what cuBLASLt may use, whatever the shape.
constexpr int64_t kMatmulBytes = int64_t{32} << 20;

constexpr int64_t buffer(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Backward, by kernels of our own: d_o . o of every token and query head.
constexpr int64_t attention_dots(DType type, int64_t tokens, int64_t heads) {
  return buffer(tokens * heads * size_bytes(accumulate_type(type)));
}

}  // namespace tessera::workspace::cuda
