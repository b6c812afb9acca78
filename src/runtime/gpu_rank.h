// The GPU of one rank, as the executor sees it: memory, one stream for each of the Program's,
// events between them, and how far the work has come.
//
// Nothing here waits for the GPU unless it says so. Calls for one stream come from one thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compile/program/program.h"
#include "kernels/context.h"
#include "tensor/arena.h"

namespace tessera {

struct GpuOptions {
  int device = 0;
  bool deterministic = true;
  int64_t mark_every = 0;  // instructions from one mark to the next; 0: 1, in a graph 8
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
  // For tests: the GPU fails here in that step.
  virtual void put_fault(int64_t step) = 0;
  // Whether marks are timed from the next step on, and, after it, the seconds from the mark before
  // (or the begin of the step) to mark `index`.
  virtual void time_marks(bool on) = 0;
  virtual double mark_seconds(size_t index) = 0;

  // While on, products find their fastest algorithm at their first use and spoil what they add to;
  // their choices are kept in a file of the user's cache folder. Attention finds its own too.
  virtual void tune_products(bool on) = 0;

  // What is put on the compute stream in between is not run but kept as a graph, in place of the
  // one before; the number of its nodes. Throw Error where that cannot be; abandon_capture() then
  // makes the stream fit for use again.
  virtual void begin_capture() = 0;
  virtual int64_t end_capture() = 0;
  virtual void abandon_capture() = 0;
  virtual void launch_graph() = 0;

  // Whether a stream has nothing left to do. Throws Error when the GPU has failed.
  virtual bool done(StreamKind stream) = 0;
  // The words of CUDA when the GPU has failed, else nothing.
  virtual std::string failure() = 0;
  // So many instructions of the compute stream are known to be completed, and of the next
  // marks_apart() at least one is not.
  virtual int64_t completed() const = 0;
  virtual int64_t marks_apart() const = 0;
  // What a kernel found wrong with its data in this step, or nothing.
  virtual std::string trouble() = 0;
  // What makes this run slower than it could be, to be said once.
  virtual std::vector<std::string> notes() = 0;

  // Wait for the GPU: whole buffers, between steps.
  virtual void read(void* to, const void* from, int64_t size_bytes) = 0;
  virtual void write(void* to, const void* from, int64_t size_bytes) = 0;
};

}  // namespace tessera
