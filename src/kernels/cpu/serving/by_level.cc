#include "kernels/cpu/serving/level.h"
#include "tensor/cpu_level.h"

namespace tessera::kernels::cpu {

const levels::Serving& serving_level() {
  switch (cpu_level()) {
    case CpuLevel::kV4Amx:  // a few rows at a time are bound by memory: tiles would not help
    case CpuLevel::kV4Bf16:
      return levels::kServingV4Bf16;
    case CpuLevel::kV4:
      return levels::kServingV4;
    default:
      return levels::kServingV3;
  }
}

}  // namespace tessera::kernels::cpu
