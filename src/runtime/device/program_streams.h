// The streams of one Program on the device of its rank. On a CPU a stream is a thread, and what it
// is given it does at once. On a GPU a stream is one of CUDA's: threads put work there and do not
// wait for it, and events of CUDA keep the order between streams.
//
// Calls for one stream come from one thread. A step allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/step_params.h"
#include "compile/program/program.h"
#include "kernels/context.h"
#include "runtime/device/instruction_times.h"

namespace tessera {

// Who has the instructions of a step.
class StepLauncher {
 public:
  // Gives every stream its instructions. Failures end the world and are kept for the end of the
  // step.
  virtual void launch() = 0;
  // Those of the compute stream alone; throws.
  virtual void launch_compute() = 0;
  // Calls `f`; what it throws ends the world and is kept for the end of the step.
  virtual void attempt(const std::function<void()>& f) = 0;
  // By instruction: the hash of what was executed in this step, or 0.
  virtual std::vector<uint64_t>& executed() = 0;
  // Whether somebody looks at single instructions of this step.
  [[nodiscard]] virtual bool watched() const = 0;

 protected:
  ~StepLauncher() = default;
};

class ProgramStreams {
 public:
  virtual ~ProgramStreams() = default;

  // Where tokens or labels of the next step are to be put, in memory of the host, once they are
  // free: not while a step reads them.
  virtual int32_t* input(BufferId id) = 0;
  [[nodiscard]] virtual bool inputs_free() const = 0;

  // One step. The first two together launch it: the first as much as can run by itself while the
  // caller does something else. Settled, all its instructions are done, and what they report is in
  // metrics(): null where the Program reports nothing.
  virtual void begin_step(const StepParams& params, StepLauncher& launcher) = 0;
  virtual void end_step(StepLauncher& launcher) = 0;
  virtual void settle() = 0;
  [[nodiscard]] virtual const double* metrics() const = 0;

  // By the thread of a stream, before its first instruction: what kernels are called with.
  virtual kernels::Context enter() = 0;
  // Around each instruction.
  virtual void before(size_t index, const Instruction& instruction) = 0;
  virtual void after(size_t index, const Instruction& instruction) = 0;
  // The event has been signalled by its thread: what comes next on `stream` starts after it.
  virtual void wait(StreamKind stream, int event) = 0;
  virtual void signal(StreamKind stream, int event) = 0;
  // Waits until what was put on the stream is done.
  virtual void drain(StreamKind stream) = 0;
  // For communicators that put calls on a stream by themselves: a cudaStream_t.
  virtual void* handle(StreamKind stream) = 0;
  // Throws what the device says where it has failed; the error at hand may be an echo of that.
  virtual void throw_if_failed() = 0;

  // From the next step on, what instructions take is added to `times`; null: no longer.
  virtual void time_instructions(InstructionTimes* times) = 0;

  // Whether the next step is to be one that finds the fastest kernels and spoils what it computes;
  // it is over when end_tuning() is called.
  virtual bool begin_tuning() = 0;
  virtual void end_tuning() = 0;

  // "312 nodes", "none: why"; nothing where the device has no graphs.
  [[nodiscard]] virtual std::optional<std::string> graph_text() const = 0;
  // What makes the run slower than it could be, to be said once.
  virtual std::vector<std::string> notes() = 0;
};

}  // namespace tessera
