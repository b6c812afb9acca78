// Stands in where CUDA was not found at build time.
#include "kernels/bodies.h"

#include "base/error.h"

namespace tessera::kernels::cuda {

const Bodies& bodies() {
  throw Error(
      "a GPU is to compute, but this program was built without CUDA: configure it with "
      "-DTESSERA_CUDA=on where nvcc is installed");
}

}  // namespace tessera::kernels::cuda
