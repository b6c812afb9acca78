// The loops of serving for the level of this process: of x86-64 in by_level.cc, of others in
// one_level.cc.
#pragma once

#include "kernels/cpu/levels/serving.h"

namespace tessera::kernels::cpu {

const levels::Serving& serving_level();

}  // namespace tessera::kernels::cpu
