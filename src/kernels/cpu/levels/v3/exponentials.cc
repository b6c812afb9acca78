// Exponentials with AVX2 and FMA.
#include "kernels/cpu/levels/exponential_loops.h"

namespace tessera::kernels::cpu::levels {

extern const Exponentials kExponentialsV3 = kExponentials;

}  // namespace tessera::kernels::cpu::levels
