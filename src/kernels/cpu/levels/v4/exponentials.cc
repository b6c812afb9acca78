// Exponentials with AVX-512.
#include "kernels/cpu/levels/exponential_loops.h"

namespace tessera::kernels::cpu::levels {

extern const Exponentials kExponentialsV4 = kExponentials;

}  // namespace tessera::kernels::cpu::levels
