#include "kernels/cpu/bodies.h"

namespace tessera::kernels::cpu {

const Bodies& bodies() {
  static constexpr Bodies kBodies = {TESSERA_EVERY_KERNEL(TESSERA_ADDRESS_OF_BODY)};
  return kBodies;
}

}  // namespace tessera::kernels::cpu
