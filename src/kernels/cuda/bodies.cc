#include "kernels/cuda/bodies.h"

namespace tessera::kernels::cuda {

const Bodies& bodies() {
  static constexpr Bodies kBodies = {
#define TESSERA_BODY(kernel) &kernel,
      TESSERA_EVERY_KERNEL(TESSERA_BODY)
#undef TESSERA_BODY
  };
  return kBodies;
}

}  // namespace tessera::kernels::cuda
