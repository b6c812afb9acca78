#include "kernels/cpu/exponentials/rows.h"

namespace tessera::kernels::cpu {

const levels::Exponentials& exponentials() { return levels::kExponentialsBase; }

}  // namespace tessera::kernels::cpu
