// The bodies of the kernels on a GPU: each puts its work on ctx.gpu's stream without waiting for
// it. A body may call others of its device, never a kernel: those check arguments, and choose the
// device again.
#pragma once

#include "kernels/bodies.h"

namespace tessera::kernels::cuda {

TESSERA_EVERY_KERNEL(TESSERA_DECLARE_BODY)

}  // namespace tessera::kernels::cuda
