// Serving with AVX-512 with products of bf16.
#include "kernels/cpu/levels/serving_loops.h"

namespace tessera::kernels::cpu::levels {

extern const Serving kServingV4Bf16 = kServing;

}  // namespace tessera::kernels::cpu::levels
