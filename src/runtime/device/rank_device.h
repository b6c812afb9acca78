// What the memory and the kernels of a rank are on: the CPU, or a GPU. Code that runs Programs
// knows no other difference between the two.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compile/program/program.h"
#include "runtime/device/options.h"
#include "runtime/device/program_streams.h"
#include "tensor/arena.h"
#include "tensor/tensor.h"

namespace tessera {

// What a tensor holds, in memory of the host: the tensor itself, or a copy of one on a GPU.
struct HostView {
  Tensor tensor;
  std::vector<std::byte> copy;
};

// Bytes on the device, and where on the host they go.
struct CopyOut {
  const void* from = nullptr;
  void* to = nullptr;
  int64_t size_bytes = 0;
};

class RankDevice {
 public:
  virtual ~RankDevice() = default;

  // Zeroed memory that kernels compute in and peers reach without a copy.
  virtual HostArena allocate(const std::string& name, int64_t size_bytes) = 0;

  // Between steps, and in a probe. Writing is for views of the same tensor.
  virtual HostView view(const Tensor& tensor) = 0;
  virtual void write(const Tensor& tensor, const HostView& contents) = 0;

  // Memory of the host that copy_out() is fastest to: pinned where the device is a GPU.
  virtual HostArena allocate_staging(const std::string& name, int64_t size_bytes) = 0;
  // The same of memory that is there already, for as long as what is returned lives.
  [[nodiscard]] virtual HostArena adopt_staging(HostArena memory) = 0;
  // Between steps; everything is there when this returns.
  virtual void copy_out(std::span<const CopyOut> copies) = 0;

  // For one Program, whose buffers are `tensors`. All of them must outlive the streams, and so must
  // the device.
  virtual std::unique_ptr<ProgramStreams> open_streams(const Program& program,
                                                       std::span<const Tensor> tensors,
                                                       const ExecutorOptions& options) = 0;
};

}  // namespace tessera
