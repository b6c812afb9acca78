// Two kernels of one thread that the executor puts between those of a step.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/step_params.h"

namespace tessera {

// Writes `value` to memory of the host that the GPU reaches. Unlike a write by the stream itself,
// it can be part of a graph.
void put_mark(cudaStream_t stream, uint32_t* completed, uint32_t value);

// For tests: reads and writes where nothing is, once params->step is `step`. The GPU is lost to
// this process from then on.
void put_fault(cudaStream_t stream, const StepParams* params, int64_t step);

}  // namespace tessera
