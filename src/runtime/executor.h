// Executes the Program of one rank: kernels on the calling thread (and its team), collectives on a
// thread of their own, messages between stages on another, each stream in order, events between
// them. On a GPU these threads put the work on a stream each and do not wait for it.
//
// A step allocates nothing. A failure on either thread aborts the world, so that every other rank
// leaves its waits, and is thrown from run().
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/sequence_rows.h"
#include "comm/world.h"
#include "compile/step.h"
#include "runtime/comm_clock.h"
#include "runtime/dispatch.h"
#include "runtime/gpu_rank.h"
#include "runtime/graph_decision.h"
#include "runtime/instruction_times.h"
#include "tensor/arena.h"

namespace tessera {

// A fault provoked on purpose: the GPU touches memory that is not there.
struct GpuFault {
  std::string instruction;  // before the first of that name
  int64_t step = 1;
};

struct ExecutorOptions {
  std::chrono::milliseconds timeout{120'000};  // longest wait for the other stream
  std::optional<GpuOptions> gpu;               // where the kernels run; none: on the CPU
  CudaGraph cuda_graph = CudaGraph::kAuto;     // as train.cuda_graph
  std::optional<GpuFault> fault;               // for tests
};

// GPU `device` where the run wants one.
std::optional<GpuOptions> gpu_options(const RunSpec& spec, int device);
// The same, and whatever else the run says about how it is executed.
ExecutorOptions executor_options(const RunSpec& spec, int device);

// What a buffer holds, in memory of the host: the buffer itself, or a copy of one on a GPU.
struct HostView {
  Tensor tensor;
  std::vector<std::byte> copy;
};

class Executor {
 public:
  // Allocates the arenas and joins the groups. `world` must outlive the executor.
  Executor(const StepGraph& step, Program program, CommWorld& world, ExecutorOptions options);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] bool on_gpu() const { return gpu_ != nullptr; }
  // "312 nodes", or "none: why"; and what makes the run slower than it could be, to be said once.
  [[nodiscard]] std::string graph_text() const { return graph_.text(); }
  [[nodiscard]] std::vector<std::string> notes() const;

  // Between steps, and in a probe.
  [[nodiscard]] HostView view(BufferId id) const;
  void write(BufferId id, const HostView& contents);
  void edit(BufferId id, const std::function<void(const Tensor& contents)>& change);

  // Where tokens or labels of the next step are to be put, in memory of the host. On a GPU that may
  // be done while a step runs: start() takes them away.
  [[nodiscard]] int32_t* input(BufferId id);

  // On a GPU: a step on the weights and inputs that are in place, by which products find their
  // fastest algorithms. Weights and optimizer state stay as they were. Nothing on the CPU. All
  // ranks call it at once.
  void tune();

  // One optimizer step (or one forward pass). The inputs must be in place.
  StepOutcome run(const StepParams& params);
  // The same in two halves: on a GPU the first returns when everything is on its way.
  void start(const StepParams& params);
  StepOutcome finish();

  // Measured: the instructions that the last step executed, what the arenas were given, what the
  // communicators have counted since the start, or the last reset.
  [[nodiscard]] std::string executed_digest() const { return digest_of(executed_); }
  [[nodiscard]] int64_t executed_instructions() const;
  [[nodiscard]] int64_t arena_bytes(ArenaKind arena) const;
  [[nodiscard]] std::vector<Traffic> traffic() const;
  void reset_traffic();  // no collective may be in flight on any rank
  [[nodiscard]] std::vector<CommTime> comm_times() const { return clock_.times(); }
  void reset_comm_times() { clock_.reset(); }

  // From the next step on, or no longer; what was measured before is forgotten.
  void time_instructions(bool on);
  [[nodiscard]] const std::optional<InstructionTimes>& instruction_times() const { return times_; }

  // Called after every instruction, on the thread that ran it; may view and edit buffers. On a GPU
  // every instruction is waited for then.
  using Probe = std::function<void(size_t index, const Instruction& instruction)>;
  void set_probe(Probe probe) { probe_ = std::move(probe); }

 private:
  struct StreamThread;
  using Channel = std::pair<GroupId, StreamKind>;

  [[nodiscard]] Channel channel_of(const Instruction& instruction) const;
  [[nodiscard]] Communicator& group(const Instruction& instruction) const;
  [[nodiscard]] Tensor tensor(BufferId id) const { return tensors_[static_cast<size_t>(id)]; }
  void allocate_arenas();
  void allocate_staging();
  void fill_rope_tables(const RopeSpec& rope, const SequenceRows& rows);
  void launch();
  void replay();
  bool capture();
  [[nodiscard]] bool watched() const { return probe_ || times_.has_value(); }
  void execute_compute();
  void execute(kernels::Context& context, const Instruction& instruction, size_t index);
  void run_instruction(kernels::Context& context, const Instruction& instruction, size_t index);
  void add_gpu_times();
  void settle_gpu();
  void wait_for_step();
  void wait_for_gpu(StreamKind stream);
  [[nodiscard]] std::optional<size_t> find_fault() const;
  // Throws what the GPU says where it has failed; the error at hand may be an echo of that.
  void throw_if_gpu_failed();
  [[noreturn]] void gpu_failed(const std::string& words);
  [[nodiscard]] std::string suspects() const;
  [[nodiscard]] StepOutcome outcome() const;
  void execute_stream(StreamKind stream);
  void wait_for(const Instruction& instruction, size_t index);
  void communicate(const Instruction& instruction, uint32_t tag);
  [[noreturn]] void fail(const std::string& what);

  Program program_;
  CommWorld& world_;
  ExecutorOptions options_;
  Workers workers_;
  std::unique_ptr<GpuRank> gpu_;
  std::array<HostArena, kNumArenas> arenas_;
  // Pinned, on a GPU: inputs of two steps, and the metrics of the last one.
  std::map<BufferId, std::array<HostArena, 2>> staging_;
  HostArena metrics_;
  int fill_ = 0;  // which half of the staging is to be filled
  std::vector<Tensor> tensors_;
  std::map<Channel, std::unique_ptr<Communicator>> groups_;
  std::map<Channel, TrafficCounters> counted_before_;  // the last reset
  std::vector<std::atomic<uint32_t>> events_;
  std::vector<uint64_t> executed_;
  CommClock clock_;
  GraphDecision graph_;
  std::vector<uint64_t> captured_;  // what the graph executes
  std::optional<size_t> fault_at_;
  CommClock::Clock::time_point started_at_;
  CommClock::Clock::duration launch_time_{};  // of the step at hand
  std::optional<InstructionTimes> times_;     // none: not asked for
  StepParams params_;
  uint32_t epoch_ = 0;
  std::exception_ptr started_error_;
  Probe probe_;
  std::vector<std::unique_ptr<StreamThread>> threads_;  // of every stream but compute
};

}  // namespace tessera
