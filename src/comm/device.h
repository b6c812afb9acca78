// Memory that only a device reaches, for ranks of one process that share one GPU: what collectives
// need to move data there. Host memory needs none of this.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/dtype.h"
#include "collective/op.h"
#include "tensor/arena.h"
#include "tensor/wait.h"

namespace tessera {

// Moves data on the device. copy, exchange and reduce put work in line and return, and what is in
// line runs in that order; nobody may be told that data has moved before finish() has returned. One
// for each communicator, used by one thread at a time. Throws Error in the words of the device.
class DeviceMover {
 public:
  virtual ~DeviceMover() = default;
  // The two must not overlap.
  virtual void copy(void* to, const void* from, int64_t size_bytes) = 0;
  // What lies at `mine` goes to `to_them`, what lies at `theirs` to `to_me`. `to_me` may be `mine`
  // and `to_them` may be `theirs`.
  virtual void exchange(const void* mine, void* to_them, const void* theirs, void* to_me,
                        int64_t size_bytes) = 0;
  // As reduce_in_order (comm/reduce.h), bit for bit; which NaN a NaN becomes is up to the device.
  virtual void reduce(ReduceOp op, DType dtype, std::span<const void* const> sources,
                      std::span<void* const> targets, int64_t count, int mean_over) = 0;
  // Waits for what is in line, `timeout` at most. After an abort it gets a moment more, because
  // what has begun still uses the buffers of peers.
  virtual void finish(const AbortFlag& abort, std::chrono::milliseconds timeout) = 0;
};

// Callable from any thread.
class Device {
 public:
  virtual ~Device() = default;
  [[nodiscard]] virtual std::string name() const = 0;  // "GPU 0"
  // Whether this is memory of the device. Throws Error for memory of another one.
  [[nodiscard]] virtual bool reaches(const void* data) = 0;
  // Zeroed.
  virtual HostArena allocate(const std::string& name, int64_t size_bytes) = 0;
  virtual std::unique_ptr<DeviceMover> make_mover() = 0;
};

// Throws Error where this program was built without CUDA, or the machine has no such GPU.
std::unique_ptr<Device> make_gpu_device(int gpu);

}  // namespace tessera
