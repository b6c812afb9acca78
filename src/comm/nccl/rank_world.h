// Makes a world from a table of functions: those of the libraries, or a test's own.
#pragma once

#include <memory>

#include "comm/nccl/gpu_library.h"
#include "comm/nccl/nccl_world.h"

namespace tessera::nccl {

std::unique_ptr<NcclWorld> make_world(const NcclWorldOptions& options,
                                      std::shared_ptr<const GpuLibrary> library);

}  // namespace tessera::nccl
