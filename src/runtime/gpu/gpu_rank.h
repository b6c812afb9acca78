// The GPU of one rank: memory, and one stream for each kind of a Program's.
//
// Nothing here waits for the GPU unless it says so. Calls for one stream come from one thread.
#pragma once

#include <memory>
#include <string>

#include "compile/program/program.h"
#include "kernels/context.h"
#include "runtime/device/options.h"
#include "runtime/gpu/gpu_program.h"
#include "tensor/arena.h"

namespace tessera {

class GpuRank {
 public:
  // Throws Error where this program was built without CUDA, or the machine has no such GPU.
  static std::unique_ptr<GpuRank> open(const GpuOptions& options);
  virtual ~GpuRank() = default;

  // Must not outlive this.
  virtual std::unique_ptr<GpuProgram> prepare(const Program& program) = 0;

  virtual HostArena allocate(const std::string& name, int64_t size_bytes) = 0;
  virtual HostArena allocate_pinned(const std::string& name,
                                    int64_t size_bytes) = 0;  // on the host
  // Memory of the host that is there already, and pinned for as long as what is returned lives.
  virtual HostArena pin(HostArena memory) = 0;
  // The calling thread's CUDA calls mean this GPU from now on.
  virtual void make_current() = 0;
  virtual kernels::cuda::Gpu* kernels() = 0;
  virtual void* stream(StreamKind stream) const = 0;  // a cudaStream_t

  // On the compute stream.
  virtual void copy_in(void* to, const void* pinned, int64_t size_bytes) = 0;
  virtual void copy_out(void* pinned, const void* from, int64_t size_bytes) = 0;

  // While on, products find their fastest algorithm at their first use and spoil what they add to;
  // their choices are kept in a file of the user's cache folder. Attention finds its own too.
  virtual void tune_products(bool on) = 0;

  // Whether a stream has nothing left to do. Throws Error when the GPU has failed.
  virtual bool done(StreamKind stream) = 0;
  // What a kernel found wrong with its data since this was asked last, or nothing.
  virtual std::string trouble() = 0;

  // Wait for the GPU: all streams; whole buffers, between steps.
  virtual void wait() = 0;
  virtual void read(void* to, const void* from, int64_t size_bytes) = 0;
  virtual void write(void* to, const void* from, int64_t size_bytes) = 0;
};

}  // namespace tessera
