// Streams of a GPU: launching a step or replaying its graph, feeding it while it computes, the one
// wait for its end, and what is said when the GPU fails.
#pragma once

#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "comm/world.h"
#include "runtime/device/options.h"
#include "runtime/device/program_streams.h"
#include "runtime/gpu/gpu_program.h"
#include "runtime/gpu/gpu_rank.h"
#include "runtime/gpu/graph_decision.h"
#include "tensor/arena.h"
#include "tensor/tensor.h"

namespace tessera {

class GpuStreams final : public ProgramStreams {
 public:
  // What the Programs of a rank have in common.
  struct Place {
    CommWorld& world;
    Workers& workers;
    GpuRank& gpu;
    bool deterministic;
  };
  GpuStreams(const Place& place, const Program& program, std::span<const Tensor> tensors,
             const ExecutorOptions& options);

  int32_t* input(BufferId id) override;
  [[nodiscard]] bool inputs_free() const override { return true; }

  void begin_step(const StepParams& params, StepLauncher& launcher) override;
  void end_step(StepLauncher& /*launcher*/) override {}
  void settle() override;
  [[nodiscard]] const double* metrics() const override;

  kernels::Context enter() override;
  void before(size_t index, const Instruction& instruction) override;
  void after(size_t index, const Instruction& instruction) override;
  void wait(StreamKind stream, int event) override { on_gpu_->wait(stream, event); }
  void signal(StreamKind stream, int event) override { on_gpu_->record(stream, event); }
  void drain(StreamKind stream) override;
  void* handle(StreamKind stream) override { return place_.gpu.stream(stream); }
  void throw_if_failed() override;

  void time_instructions(InstructionTimes* times) override;
  bool begin_tuning() override;
  void end_tuning() override;
  [[nodiscard]] std::optional<std::string> graph_text() const override { return graph_.text(); }
  std::vector<std::string> notes() override { return on_gpu_->notes(); }

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] Tensor tensor(BufferId id) const { return tensors_[static_cast<size_t>(id)]; }
  [[nodiscard]] std::optional<size_t> find_fault() const;
  void allocate_staging();
  void launch(StepLauncher& launcher);
  bool capture(StepLauncher& launcher);
  void wait_for_step();
  void add_times();
  [[noreturn]] void fail(const std::string& words);
  [[nodiscard]] std::string suspects() const;

  Place place_;
  const Program& program_;
  std::span<const Tensor> tensors_;
  ExecutorOptions options_;
  std::unique_ptr<GpuProgram> on_gpu_;
  std::optional<size_t> fault_at_;
  // Pinned: inputs of two steps, and the metrics of the last one.
  std::map<BufferId, std::array<HostArena, 2>> staging_;
  HostArena metrics_;
  int fill_ = 0;  // which half of the staging is to be filled
  int kept_fill_ = 0;
  GraphDecision graph_;
  std::vector<uint64_t> captured_;  // what the graph executes
  int64_t step_ = 0;                // the number of the step at hand
  bool watched_ = false;
  Clock::time_point started_at_;
  Clock::duration launch_time_{};
  InstructionTimes* times_ = nullptr;
};

}  // namespace tessera
