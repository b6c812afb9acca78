// What this machine has of the libraries that GPU runs need, for `tessera doctor`.
#pragma once

#include <string>
#include <vector>

namespace tessera::kernels {

struct GpuLibrary {
  std::string name;     // "cuDNN"
  std::string found;    // its version, or empty
  std::string needed;   // the oldest version that will do
  std::string why_not;  // empty: it can be used
};

// The driver, the CUDA runtime, cuBLASLt, cuDNN and NCCL. Needs no GPU and does not throw.
std::vector<GpuLibrary> gpu_libraries();

}  // namespace tessera::kernels
