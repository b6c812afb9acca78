#include "runtime/cpu/cpu_streams.h"

namespace tessera {

void CpuStreams::begin_step(const StepParams& params, StepLauncher& /*launcher*/) {
  params_ = params;
  running_ = true;
}

void CpuStreams::end_step(StepLauncher& launcher) { launcher.launch(); }

const double* CpuStreams::metrics() const {
  return program_.metrics == kNoBuffer ? nullptr : tensor(program_.metrics).as<double>();
}

kernels::Context CpuStreams::enter() {
  const Tensor scratch = tensor(program_.scratch);
  return {workers_,
          {static_cast<std::byte*>(scratch.data), static_cast<size_t>(scratch.bytes())},
          &params_};
}

void CpuStreams::before(size_t /*index*/, const Instruction& instruction) {
  if (times_ != nullptr) began_[static_cast<size_t>(instruction.stream)] = Clock::now();
}

void CpuStreams::after(size_t index, const Instruction& instruction) {
  if (times_ == nullptr) return;
  const auto stream = static_cast<size_t>(instruction.stream);
  const auto seconds = [](Clock::time_point at) {
    return std::chrono::duration<double>(at.time_since_epoch()).count();
  };
  times_->add(index, {seconds(began_[stream]), seconds(Clock::now())});
}

}  // namespace tessera
