// Executes one Program on its rank: kernels on the calling thread (and its team), collectives on a
// thread of their own, messages between stages on another, each stream in order, events between
// them. What a stream is, the device of the rank knows (runtime/device/program_streams.h).
//
// A step allocates nothing. A failure on any thread aborts the world, so that every other rank
// leaves its waits, and is thrown from run().
#pragma once

#include <array>
#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compile/step.h"
#include "runtime/comm_clock.h"
#include "runtime/device/instruction_times.h"
#include "runtime/device/options.h"
#include "runtime/device/program_streams.h"
#include "runtime/dispatch.h"
#include "runtime/phase_clock.h"
#include "runtime/program_memory.h"
#include "runtime/rank.h"

namespace tessera {

class Executor final : private StepLauncher {
 public:
  // Takes its place in the memory of the rank and joins the groups. Several executors of one rank
  // run in turn, never at once. `rank` must outlive the executor. Throws Error where the Program
  // does not fit the rank: another team, or other places for what is kept.
  Executor(Rank& rank, const StepGraph& step, Program program, ExecutorOptions options);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] Rank& rank() { return rank_; }
  [[nodiscard]] const Rank& rank() const { return rank_; }

  // "312 nodes", or "none: why", where the device has graphs; and what makes the run slower than it
  // could be, to be said once.
  [[nodiscard]] std::optional<std::string> graph_text() const { return streams_->graph_text(); }
  [[nodiscard]] std::vector<std::string> notes() const { return streams_->notes(); }

  // Between steps, and in a probe.
  [[nodiscard]] HostView view(BufferId id) const { return memory_.view(id); }
  void write(BufferId id, const HostView& contents) { memory_.write(id, contents); }
  // Parts of buffers into memory of the host; best into Rank::device().allocate_staging().
  void copy_out(std::span<const BufferCopy> copies) const { memory_.copy_out(copies); }
  void edit(BufferId id, const std::function<void(const Tensor& contents)>& change) {
    memory_.edit(id, change);
  }

  // Where tokens or labels of the next step are to be put, in memory of the host, once they are
  // free: between steps, and on some devices between start() and finish() too.
  [[nodiscard]] int32_t* input(BufferId id) { return streams_->input(id); }
  [[nodiscard]] bool inputs_free() const { return streams_->inputs_free(); }

  // A step on the weights and inputs that are in place, by which kernels find their fastest
  // algorithms; false where there is nothing to find, and no step. Weights and the states of the
  // optimizer stay as they were. All ranks call it at once.
  bool tune();

  // One optimizer step (or one forward pass). The inputs must be in place.
  StepOutcome run(const StepParams& params);
  // The same in two halves: between them the device may compute already.
  void start(const StepParams& params);
  StepOutcome finish();

  // Measured: the instructions that the last step executed, and what the arenas were given.
  [[nodiscard]] std::string executed_digest() const { return digest_of(executed_); }
  [[nodiscard]] int64_t executed_instructions() const;
  [[nodiscard]] int64_t arena_bytes(ArenaKind arena) const { return memory_.arena_bytes(arena); }
  // What the rank has sent since the start or the last reset, whichever Program did it.
  [[nodiscard]] std::vector<Traffic> traffic() const { return rank_.channels().meter().traffic(); }
  void reset_traffic() { rank_.channels().meter().reset(); }
  [[nodiscard]] std::vector<CommTime> comm_times() const { return clock_.times(); }
  void reset_comm_times() { clock_.reset(); }
  [[nodiscard]] PassSeconds pass_seconds() const { return phases_.seconds(); }
  // Whether the time of steps counts from now on: that of an evaluation is not training's.
  void count_times(bool on) {
    clock_.count(on);
    phases_.count(on);
  }

  // From the next step on, or no longer; what was measured before is forgotten.
  void time_instructions(bool on);
  [[nodiscard]] const std::optional<InstructionTimes>& instruction_times() const { return times_; }

  // Called after every instruction, on the thread that ran it; may view and edit buffers. Every
  // instruction is waited for then.
  using Probe = std::function<void(size_t index, const Instruction& instruction)>;
  void set_probe(Probe probe) { probe_ = std::move(probe); }

 private:
  struct StreamThread;

  void launch() override;
  void launch_compute() override { execute_stream(StreamKind::kCompute); }
  void attempt(const std::function<void()>& f) override;
  std::vector<uint64_t>& executed() override { return executed_; }
  [[nodiscard]] bool watched() const override { return probe_ || times_.has_value(); }

  void execute_stream(StreamKind stream);
  void execute(kernels::Context& context, const Instruction& instruction, size_t index);
  void run_instruction(kernels::Context& context, const Instruction& instruction, size_t index);
  void communicate(Communicator& peers, const Instruction& instruction);
  void wait_for(const Instruction& instruction, size_t index);
  void wait_for_threads();
  [[nodiscard]] StepOutcome outcome() const;

  Rank& rank_;
  Program program_;
  ExecutorOptions options_;
  ProgramMemory memory_;
  std::vector<Communicator*> peers_;  // by instruction; null: a kernel
  std::unique_ptr<ProgramStreams> streams_;
  std::vector<std::atomic<uint32_t>> events_;
  std::vector<uint64_t> executed_;
  std::array<WorkNote*, kNumStreams> notes_;  // by stream; null: nobody looks
  CommClock clock_;
  PhaseClock phases_;
  std::optional<InstructionTimes> times_;  // none: not asked for
  StepParams params_;
  uint32_t epoch_ = 0;
  std::exception_ptr error_;  // of this thread, in the step at hand
  Probe probe_;
  std::vector<std::unique_ptr<StreamThread>> threads_;  // of every stream but compute
};

}  // namespace tessera
