// The GPU of one rank, as the executor sees it: memory, one stream for each of the Program's,
// events between them, and how far the work has come.
//
// Nothing here waits for the GPU unless it says so. Calls for one stream come from one thread.
#pragma once

#include <memory>
#include <string>

#include "compile/program.h"
#include "kernels/kernels.h"
#include "tensor/arena.h"

namespace tessera {

struct GpuOptions {
  int device = 0;
  bool deterministic = true;
};

class GpuRank {
 public:
  // Throws Error where this program was built without CUDA, or the machine has no such GPU.
  static std::unique_ptr<GpuRank> open(const GpuOptions& options, const Program& program);
  virtual ~GpuRank() = default;

  virtual HostArena allocate(const std::string& name, int64_t size_bytes) = 0;
  // The calling thread's CUDA calls mean this GPU from now on.
  virtual void make_current() = 0;
  virtual kernels::cuda::Gpu* kernels() = 0;
  virtual const StepParams* params() const = 0;       // on the GPU
  virtual void* stream(StreamKind stream) const = 0;  // a cudaStream_t

  // The numbers of the next step, and its inputs from the host: before anything else of the step.
  virtual void begin_step(const StepParams& params) = 0;
  virtual void copy_in(void* to, const void* pinned, int64_t size_bytes) = 0;
  virtual void copy_out(void* pinned, const void* from, int64_t size_bytes) = 0;

  // What comes next on `stream` starts after what was before the record of the event.
  virtual void wait(StreamKind stream, int event) = 0;
  virtual void record(StreamKind stream, int event) = 0;
  // An instruction of the compute stream has been put there.
  virtual void mark() = 0;
  // Whether marks are timed from the next step on, and, after it, the seconds from the mark before
  // (or the begin of the step) to mark `index`.
  virtual void time_marks(bool on) = 0;
  virtual double mark_seconds(size_t index) = 0;

  // While on, products find their fastest algorithm at their first use and spoil what they add to;
  // their choices are kept in a file of the user's cache folder. Attention finds its own too.
  virtual void tune_products(bool on) = 0;

  // Whether a stream has nothing left to do. Throws Error when the GPU has failed.
  virtual bool done(StreamKind stream) = 0;
  // How many instructions of the compute stream have been completed, counted by mark().
  virtual int64_t completed() const = 0;
  // What a kernel found wrong with its data in this step, or nothing.
  virtual std::string trouble() = 0;

  // Wait for the GPU: whole buffers, between steps.
  virtual void read(void* to, const void* from, int64_t size_bytes) = 0;
  virtual void write(void* to, const void* from, int64_t size_bytes) = 0;
};

}  // namespace tessera
