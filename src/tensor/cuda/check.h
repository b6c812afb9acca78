// Results of the CUDA runtime as exceptions.
#pragma once

#include <cuda_runtime_api.h>

namespace tessera::cuda {

// Throws Error: "`what`: the words of CUDA (its name)".
void check(cudaError_t status, const char* what);

}  // namespace tessera::cuda
