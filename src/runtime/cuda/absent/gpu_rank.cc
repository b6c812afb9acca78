#include "runtime/gpu/gpu_rank.h"

#include "base/error.h"
#include "tensor/gpu_memory.h"

namespace tessera {

std::unique_ptr<GpuRank> GpuRank::open(const GpuOptions& options) {
  throw Error(fmt::format("train.device = \"cuda\": {}; use device = \"cpu\"",
                          cuda::gpu_info(options.device).why_not));
}

}  // namespace tessera
