#include "runtime/cpu/cpu_device.h"

#include <cstring>

#include "runtime/cpu/cpu_streams.h"

namespace tessera {

void CpuDevice::copy_out(std::span<const CopyOut> copies) {
  for (const CopyOut& copy : copies) {
    std::memcpy(copy.to, copy.from, static_cast<size_t>(copy.size_bytes));
  }
}

std::unique_ptr<ProgramStreams> CpuDevice::open_streams(const Program& program,
                                                        std::span<const Tensor> tensors,
                                                        const ExecutorOptions& options) {
  require_config(!options.fault,
                 "--inject gpu-fault: the run is not on a GPU: use train.device = \"cuda\"");
  return std::make_unique<CpuStreams>(program, tensors, workers_);
}

}  // namespace tessera
