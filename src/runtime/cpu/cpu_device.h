// The CPU as the device of a rank: memory that peers share, kernels on the rank's team of threads.
#pragma once

#include "comm/world.h"
#include "runtime/device/rank_device.h"
#include "tensor/workers.h"

namespace tessera {

class CpuDevice final : public RankDevice {
 public:
  CpuDevice(CommWorld& world, Workers& workers) : world_(world), workers_(workers) {}

  HostArena allocate(const std::string& name, int64_t size_bytes) override {
    return world_.allocate(name, size_bytes);
  }
  HostView view(const Tensor& tensor) override { return {tensor, {}}; }
  void write(const Tensor& /*tensor*/, const HostView& /*contents*/) override {}  // it is there
  HostArena allocate_staging(const std::string& name, int64_t size_bytes) override {
    return {name, size_bytes};
  }
  HostArena adopt_staging(HostArena memory) override { return memory; }
  void copy_out(std::span<const CopyOut> copies) override;
  std::unique_ptr<ProgramStreams> open_streams(const Program& program,
                                               std::span<const Tensor> tensors,
                                               const ExecutorOptions& options) override;

 private:
  CommWorld& world_;
  Workers& workers_;
};

}  // namespace tessera
