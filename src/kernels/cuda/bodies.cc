#include "kernels/cuda/bodies.h"

namespace tessera::kernels::cuda {

const Bodies& bodies() {
  static constexpr Bodies kBodies = {TESSERA_EVERY_KERNEL(TESSERA_ADDRESS_OF_BODY)};
  return kBodies;
}

}  // namespace tessera::kernels::cuda
