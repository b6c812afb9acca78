// Serving on CPUs that have no levels, with what all of the program is compiled for.
#include "kernels/cpu/levels/serving_loops.h"

namespace tessera::kernels::cpu::levels {

extern const Serving kServingBase = kServing;

}  // namespace tessera::kernels::cpu::levels
