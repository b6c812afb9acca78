// One Program on the GPU of its rank: its numbers, its events, how far it has come, and its graph.
//
// Nothing here waits for the GPU unless it says so. Calls for one stream come from one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "compile/program/program.h"
#include "kernels/context.h"

namespace tessera {

class GpuProgram {
 public:
  virtual ~GpuProgram() = default;

  virtual const StepParams* params() const = 0;  // on the GPU
  // The numbers of the next step: before anything else of the step.
  virtual void begin_step(const StepParams& params) = 0;

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

  // What is put on the compute stream in between is not run but kept as a graph, in place of the
  // one before; the number of its nodes. Throw Error where that cannot be; abandon_capture() then
  // makes the stream fit for use again.
  virtual void begin_capture() = 0;
  virtual int64_t end_capture() = 0;
  virtual void abandon_capture() = 0;
  virtual void launch_graph() = 0;

  // The words of CUDA when the GPU has failed, else nothing.
  virtual std::string failure() = 0;
  // So many instructions of the compute stream are known to be completed, and of the next
  // marks_apart() at least one is not.
  virtual int64_t completed() const = 0;
  virtual int64_t marks_apart() const = 0;
  // What makes this run slower than it could be, to be said once.
  virtual std::vector<std::string> notes() = 0;
};

}  // namespace tessera
