// Serving with AVX2.
#include "kernels/cpu/levels/serving_loops.h"

namespace tessera::kernels::cpu::levels {

extern const Serving kServingV3 = kServing;

}  // namespace tessera::kernels::cpu::levels
