// The bodies of the kernels on the CPU. A body may call others of its device, never a kernel: those
// check arguments, and choose the device again.
#pragma once

#include "kernels/bodies.h"

namespace tessera::kernels::cpu {

TESSERA_EVERY_KERNEL(TESSERA_DECLARE_BODY)

decltype(kernels::first_nonfinite) first_nonfinite;

}  // namespace tessera::kernels::cpu
