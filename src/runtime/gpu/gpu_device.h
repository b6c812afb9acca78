// A GPU as the device of a rank.
#pragma once

#include <utility>

#include "comm/world.h"
#include "runtime/device/rank_device.h"
#include "runtime/gpu/gpu_rank.h"
#include "runtime/gpu/gpu_streams.h"
#include "tensor/workers.h"

namespace tessera {

class GpuDevice final : public RankDevice {
 public:
  GpuDevice(CommWorld& world, Workers& workers, const GpuOptions& options)
      : gpu_(GpuRank::open(options)), place_{world, workers, *gpu_, options.deterministic} {}

  HostArena allocate(const std::string& name, int64_t size_bytes) override {
    return gpu_->allocate(name, size_bytes);
  }
  HostView view(const Tensor& tensor) override;
  void write(const Tensor& tensor, const HostView& contents) override;
  HostArena allocate_staging(const std::string& name, int64_t size_bytes) override {
    return gpu_->allocate_pinned(name, size_bytes);
  }
  HostArena adopt_staging(HostArena memory) override { return gpu_->pin(std::move(memory)); }
  void copy_out(std::span<const CopyOut> copies) override;
  std::unique_ptr<ProgramStreams> open_streams(const Program& program,
                                               std::span<const Tensor> tensors,
                                               const ExecutorOptions& options) override;

 private:
  std::unique_ptr<GpuRank> gpu_;
  GpuStreams::Place place_;
};

}  // namespace tessera
