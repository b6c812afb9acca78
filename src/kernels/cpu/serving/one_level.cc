#include "kernels/cpu/serving/level.h"

namespace tessera::kernels::cpu {

const levels::Serving& serving_level() { return levels::kServingBase; }

}  // namespace tessera::kernels::cpu
