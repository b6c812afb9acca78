// Executes the Program of one rank: kernels on the calling thread (and its team), collectives on a
// thread of their own, messages between stages on another, each stream in order, events between
// them.
//
// A step allocates nothing. A failure on either thread aborts the world, so that every other rank
// leaves its waits, and is thrown from run().
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/sequence_rows.h"
#include "comm/world.h"
#include "compile/step.h"
#include "runtime/comm_clock.h"
#include "runtime/dispatch.h"
#include "tensor/arena.h"

namespace tessera {

struct ExecutorOptions {
  std::chrono::milliseconds timeout{120'000};  // longest wait for the other stream
};

class Executor {
 public:
  // Allocates the arenas and joins the groups. `world` must outlive the executor.
  Executor(const StepGraph& step, Program program, CommWorld& world, ExecutorOptions options);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] Tensor tensor(BufferId id) const { return tensors_[static_cast<size_t>(id)]; }

  // One optimizer step (or one forward pass). The inputs must be in place.
  StepOutcome run(const StepParams& params);

  // Measured: the instructions that the last step executed, what the arenas were given, what the
  // communicators have counted since the start.
  [[nodiscard]] std::string executed_digest() const { return digest_of(executed_); }
  [[nodiscard]] int64_t executed_instructions() const;
  [[nodiscard]] int64_t arena_bytes(ArenaKind arena) const;
  [[nodiscard]] std::vector<Traffic> traffic() const;
  [[nodiscard]] std::vector<CommTime> comm_times() const { return clock_.times(); }
  void reset_comm_times() { clock_.reset(); }

  // Called after every instruction, on the thread that ran it; may look at and change tensors.
  using Probe = std::function<void(size_t index, const Instruction& instruction)>;
  void set_probe(Probe probe) { probe_ = std::move(probe); }

 private:
  struct StreamThread;

  void fill_rope_tables(const RopeSpec& rope, const SequenceRows& rows);
  void execute_stream(StreamKind stream);
  void wait_for(const Instruction& instruction, size_t index);
  void communicate(const Instruction& instruction, uint32_t tag);
  void run_collective(const Instruction& instruction, uint32_t tag);
  [[noreturn]] void fail(const std::string& what);

  Program program_;
  CommWorld& world_;
  ExecutorOptions options_;
  Workers workers_;
  std::array<HostArena, kNumArenas> arenas_;
  std::vector<Tensor> tensors_;
  std::map<GroupId, std::unique_ptr<Communicator>> groups_;
  std::vector<std::atomic<uint32_t>> events_;
  std::vector<uint64_t> executed_;
  CommClock clock_;
  StepParams params_;
  uint32_t epoch_ = 0;
  Probe probe_;
  std::vector<std::unique_ptr<StreamThread>> threads_;  // of every stream but compute
};

}  // namespace tessera
