#include "tensor/cuda/check.h"

#include "base/error.h"

namespace tessera::cuda {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // or the next call that asks for it would see this one
  throw Error(
      fmt::format("{}: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status)));
}

}  // namespace tessera::cuda
