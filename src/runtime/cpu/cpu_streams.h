// Streams of the CPU: the thread of a stream computes what it is given before it returns, so order
// between threads is all the order there is.
#pragma once

#include <array>
#include <chrono>
#include <span>

#include "runtime/device/program_streams.h"
#include "tensor/tensor.h"
#include "tensor/workers.h"

namespace tessera {

class CpuStreams final : public ProgramStreams {
 public:
  CpuStreams(const Program& program, std::span<const Tensor> tensors, Workers& workers)
      : program_(program), tensors_(tensors), workers_(workers) {}

  int32_t* input(BufferId id) override { return tensor(id).as<int32_t>(); }
  [[nodiscard]] bool inputs_free() const override { return !running_; }

  void begin_step(const StepParams& params, StepLauncher& launcher) override;
  void end_step(StepLauncher& launcher) override;
  void settle() override { running_ = false; }
  [[nodiscard]] const double* metrics() const override;

  kernels::Context enter() override;
  void before(size_t index, const Instruction& instruction) override;
  void after(size_t index, const Instruction& instruction) override;
  void wait(StreamKind /*stream*/, int /*event*/) override {}
  void signal(StreamKind /*stream*/, int /*event*/) override {}
  void drain(StreamKind /*stream*/) override {}
  void* handle(StreamKind /*stream*/) override { return nullptr; }
  void throw_if_failed() override {}

  void time_instructions(InstructionTimes* times) override { times_ = times; }
  bool begin_tuning() override { return false; }
  void end_tuning() override {}
  [[nodiscard]] std::optional<std::string> graph_text() const override { return std::nullopt; }
  std::vector<std::string> notes() override { return {}; }

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] Tensor tensor(BufferId id) const { return tensors_[static_cast<size_t>(id)]; }

  const Program& program_;
  std::span<const Tensor> tensors_;
  Workers& workers_;
  StepParams params_;
  bool running_ = false;
  InstructionTimes* times_ = nullptr;
  std::array<Clock::time_point, kNumStreams> began_;  // by stream: the instruction at hand
};

}  // namespace tessera
