// Serving with AVX-512.
#include "kernels/cpu/levels/serving_loops.h"

namespace tessera::kernels::cpu::levels {

extern const Serving kServingV4 = kServing;

}  // namespace tessera::kernels::cpu::levels
