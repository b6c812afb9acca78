#include "kernels/cpu/exponentials/rows.h"
#include "tensor/cpu_level.h"

namespace tessera::kernels::cpu {

const levels::Exponentials& exponentials() {
  return cpu_level() >= CpuLevel::kV4 ? levels::kExponentialsV4 : levels::kExponentialsV3;
}

}  // namespace tessera::kernels::cpu
