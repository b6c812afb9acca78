// What a kernel is given beside its tensors, and what holds for all kernels. Each is declared in
// the header of its family (linear.h, norms.h, ...), checks its arguments in the source beside it,
// and has a body for each device (bodies.h).
//
// Letters: T tokens of this rank (whole sequences of S tokens, one after another), H model width,
// N/K columns of a product, V vocabulary rows of this rank, D head width. Tensors of one call have
// one storage type (f64, f32, bf16 or f16) unless a comment says otherwise; arithmetic is f64 for
// f64 and f32 for the others; statistics are stored in the accumulate type (f32 for bf16 and f16),
// and so are weight gradients, unless those of bf16 are given as bf16: then they are computed in
// f32 and rounded when they are stored. `accumulate` adds to the output instead of overwriting it.
// Results depend only on the inputs and on ctx.workers.size(): no atomics, no timing. Nothing
// allocates: scratch comes from ctx.workspace, whose size base/workspace.h gives. Every shape is
// checked (InternalError).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/step_params.h"
#include "tensor/tensor.h"
#include "tensor/workers.h"

namespace tessera::kernels {

namespace cuda {
class Gpu;
}

// Tensors, workspace and params are in the memory of the device that computes.
struct Context {
  Workers& workers;
  std::span<std::byte> workspace;
  const StepParams* params = nullptr;  // of kernels that say so
  cuda::Gpu* gpu = nullptr;            // null: the CPU computes
};

}  // namespace tessera::kernels
