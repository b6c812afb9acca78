#include "runtime/gpu/gpu_device.h"

namespace tessera {

HostView GpuDevice::view(const Tensor& tensor) {
  HostView view{tensor, {}};
  view.copy.resize(static_cast<size_t>(tensor.bytes()));
  gpu_->read(view.copy.data(), tensor.data, tensor.bytes());
  view.tensor.data = view.copy.data();
  return view;
}

void GpuDevice::write(const Tensor& tensor, const HostView& contents) {
  gpu_->write(tensor.data, contents.tensor.data, contents.tensor.bytes());
}

void GpuDevice::copy_out(std::span<const CopyOut> copies) {
  gpu_->make_current();
  gpu_->wait();  // also for what other streams still write
  for (const CopyOut& copy : copies) gpu_->copy_out(copy.to, copy.from, copy.size_bytes);
  gpu_->wait();
}

std::unique_ptr<ProgramStreams> GpuDevice::open_streams(const Program& program,
                                                        std::span<const Tensor> tensors,
                                                        const ExecutorOptions& options) {
  return std::make_unique<GpuStreams>(place_, program, tensors, options);
}

}  // namespace tessera
