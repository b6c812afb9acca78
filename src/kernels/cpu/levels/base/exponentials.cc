// Exponentials on CPUs that have no levels, with what all of the program is compiled for.
#include "kernels/cpu/levels/exponential_loops.h"

namespace tessera::kernels::cpu::levels {

extern const Exponentials kExponentialsBase = kExponentials;

}  // namespace tessera::kernels::cpu::levels
