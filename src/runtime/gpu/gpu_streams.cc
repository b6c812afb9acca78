#include "runtime/gpu/gpu_streams.h"

#include <fmt/ranges.h>

#include <thread>

#include "runtime/device/fail_rank.h"
#include "tensor/gpu_memory.h"

namespace tessera {

GpuStreams::GpuStreams(const Place& place, const Program& program, std::span<const Tensor> tensors,
                       const ExecutorOptions& options)
    : place_(place),
      program_(program),
      tensors_(tensors),
      options_(options),
      on_gpu_(place.gpu.prepare(program)),
      fault_at_(find_fault()),
      graph_(options.cuda_graph, /*on_gpu=*/true, program) {
  allocate_staging();
}

std::optional<size_t> GpuStreams::find_fault() const {
  if (!options_.fault) return std::nullopt;
  for (size_t i = 0; i < program_.instructions.size(); ++i) {
    const Instruction& instruction = program_.instructions[i];
    if (instruction.stream == StreamKind::kCompute &&
        instruction.name == options_.fault->instruction) {
      return i;
    }
  }
  throw ConfigError(fmt::format("--inject: no kernel makes '{}'; see tessera plan --program",
                                options_.fault->instruction));
}

void GpuStreams::allocate_staging() {
  for (const BufferId id : {program_.tokens, program_.labels, program_.document_starts}) {
    if (id == kNoBuffer) continue;
    for (HostArena& half : staging_[id]) {
      half = cuda::allocate_pinned(program_.buffer(id).name, program_.buffer(id).bytes());
    }
  }
  if (program_.metrics == kNoBuffer) return;
  metrics_ = cuda::allocate_pinned("metrics", program_.buffer(program_.metrics).bytes());
}

int32_t* GpuStreams::input(BufferId id) {
  return reinterpret_cast<int32_t*>(staging_.at(id)[static_cast<size_t>(fill_)].data());
}

void GpuStreams::begin_step(const StepParams& params, StepLauncher& launcher) {
  step_ = params.step;
  watched_ = launcher.watched();
  place_.gpu.make_current();
  on_gpu_->begin_step(params);
  for (const auto& [id, halves] : staging_) {
    const Tensor to = tensor(id);
    place_.gpu.copy_in(to.data, halves[static_cast<size_t>(fill_)].data(), to.bytes());
  }
  fill_ = 1 - fill_;
  launch(launcher);
}

void GpuStreams::launch(StepLauncher& launcher) {
  started_at_ = Clock::now();
  launch_time_ = {};
  if (!watched_ && (graph_.replays() || (graph_.captures() && capture(launcher)))) {
    return launcher.attempt([&] {
      on_gpu_->launch_graph();
      launcher.executed() = captured_;
    });
  }
  launcher.launch();
  launch_time_ = Clock::now() - started_at_;
}

// Nothing of the step is run by this.
bool GpuStreams::capture(StepLauncher& launcher) {
  try {
    on_gpu_->begin_capture();
    launcher.launch_compute();
    graph_.captured(on_gpu_->end_capture());
    captured_ = launcher.executed();
    return true;
  } catch (const std::exception& e) {
    on_gpu_->abandon_capture();
    graph_.not_captured(e.what());
    return false;
  }
}

kernels::Context GpuStreams::enter() {
  place_.gpu.make_current();
  const Tensor scratch = tensor(program_.scratch);
  return {place_.workers,
          {static_cast<std::byte*>(scratch.data), static_cast<size_t>(scratch.bytes())},
          on_gpu_->params(),
          place_.gpu.kernels()};
}

void GpuStreams::before(size_t index, const Instruction& /*instruction*/) {
  if (fault_at_ == index) on_gpu_->put_fault(options_.fault->step);
}

void GpuStreams::after(size_t /*index*/, const Instruction& instruction) {
  if (instruction.stream == StreamKind::kCompute) on_gpu_->mark();
}

void GpuStreams::throw_if_failed() {
  const std::string words = on_gpu_->failure();
  if (!words.empty()) fail(words);
}

// The instruction that the GPU came to, or those between the last mark and the next.
std::string GpuStreams::suspects() const {
  const int64_t first = on_gpu_->completed();
  const int64_t last = first + on_gpu_->marks_apart() - 1;
  std::vector<std::string> names;
  size_t first_index = 0;
  size_t last_index = 0;
  int64_t place = 0;
  for (size_t i = 0; i < program_.instructions.size(); ++i) {
    const Instruction& instruction = program_.instructions[i];
    if (instruction.stream != StreamKind::kCompute) continue;
    if (place >= first && place <= last) {
      if (names.empty()) first_index = i;
      last_index = i;
      names.push_back(fmt::format("{} '{}'", name_of(instruction.op), instruction.name));
    }
    ++place;
  }
  if (names.empty()) return "after the last instruction";
  if (names.size() == 1) return fmt::format("instruction {} ({})", first_index, names[0]);
  return fmt::format("one of the instructions {} to {} ({}; train.mark_every = 1 tells which)",
                     first_index, last_index, fmt::join(names, ", "));
}

// The GPU tells of a failure late: what it came to is to be named, not what was put there last.
void GpuStreams::fail(const std::string& words) {
  const CommWorld& world = place_.world;
  const bool shared = world.size() > 1 && world.backend() == "local";
  throw Error(fmt::format(
      "rank {}: step {}: {}: {}{}", program_.rank, step_, suspects(), words,
      shared ? fmt::format(" (or what another of the {} ranks on this GPU did)", world.size())
             : ""));
}

void GpuStreams::drain(StreamKind stream) {
  CommWorld& world = place_.world;
  const auto end = Clock::now() + options_.timeout;
  for (int64_t polls = 0;; ++polls) {
    try {
      if (place_.gpu.done(stream)) return;
    } catch (const Error& error) {
      fail(error.what());
    }
    if (world.aborted()) throw CommError(world.abort_reason());
    if (Clock::now() > end) {
      fail_rank(
          world, program_.rank,
          fmt::format("step {}: the GPU has not finished its {} stream within {} ms: it is at {}",
                      step_, name_of(stream), options_.timeout.count(), suspects()));
    }
    if (polls > 100) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

// The one wait of a step: for its last instruction, and the numbers it reports.
void GpuStreams::wait_for_step() {
  try {
    if (program_.metrics != kNoBuffer) {
      const Tensor metrics = tensor(program_.metrics);
      place_.gpu.copy_out(metrics_.data(), metrics.data, metrics.bytes());
    }
    for (const StreamKind stream : kCommunicationStreams) drain(stream);
    drain(StreamKind::kCompute);
  } catch (const Error&) {
    throw_if_failed();
    throw;
  }
  // A collective that was aborted leaves the stream to those behind it.
  if (place_.world.aborted()) throw CommError(place_.world.abort_reason());
  const std::string trouble = place_.gpu.trouble();
  require(trouble.empty(), "rank {}: step {}: {}", program_.rank, step_, trouble);
}

void GpuStreams::settle() {
  wait_for_step();
  if (times_ != nullptr) add_times();
  if (launch_time_.count() == 0 || watched_) return;
  const std::chrono::duration<double> launching = launch_time_;
  const std::chrono::duration<double> step = Clock::now() - started_at_;
  graph_.saw_step(launching.count(), step.count());
}

const double* GpuStreams::metrics() const {
  return program_.metrics == kNoBuffer ? nullptr : reinterpret_cast<const double*>(metrics_.data());
}

// A kernel takes from the end of the one before it to its own: what it waits for is its time too.
void GpuStreams::add_times() {
  size_t mark = 0;
  for (size_t i = 0; i < program_.instructions.size(); ++i) {
    if (program_.instructions[i].stream != StreamKind::kCompute) continue;
    times_->add(i, on_gpu_->mark_seconds(mark++));
  }
}

void GpuStreams::time_instructions(InstructionTimes* times) {
  on_gpu_->time_marks(times != nullptr);
  times_ = times;
}

// The inputs of the step by which products are tuned are those of the next one too.
bool GpuStreams::begin_tuning() {
  // What is fastest may change from run to run, and with it the order of sums.
  if (place_.deterministic) return false;
  place_.gpu.tune_products(true);
  kept_fill_ = fill_;
  return true;
}

void GpuStreams::end_tuning() {
  fill_ = kept_fill_;
  place_.gpu.tune_products(false);
}

}  // namespace tessera
