// The seam between devices: a kernel checks its arguments, then hands over to its CUDA body where
// the context says so. Without CUDA at build time no context can.
#pragma once

#ifdef TESSERA_HAS_CUDA
#include "kernels/cuda/bodies.h"
#define TESSERA_ON_CUDA(call) \
  if (ctx.gpu != nullptr) return cuda::call
#else
#define TESSERA_ON_CUDA(call) static_cast<void>(ctx)
#endif
