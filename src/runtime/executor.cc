#include "runtime/executor.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <map>
#include <thread>

#include "base/hash.h"
#include "compile/model/context.h"
#include "runtime/calls.h"
#include "runtime/rope_table.h"
#include "runtime/shift.h"
#include "tensor/element.h"
#include "tensor/gpu_memory.h"

namespace tessera {

// Runs one stream once per epoch.
struct Executor::StreamThread {
  StreamThread(Executor& owner, StreamKind kind)
      : stream(kind), thread([this, &owner] { loop(owner); }) {}
  ~StreamThread() {
    stop.store(true);
    publish(wanted, wanted.load() + 1);
    thread.join();
  }

  void loop(Executor& owner) {
    for (uint32_t epoch = 1;; ++epoch) {
      while (wait_at_least(wanted, epoch, nullptr, std::chrono::hours(1)) != WaitResult::kReady) {
      }
      if (stop.load()) return;
      try {
        owner.execute_stream(stream);
      } catch (const std::exception& e) {
        error = std::current_exception();
        owner.world_.abort(e.what());
      }
      publish(done, epoch);
    }
  }

  StreamKind stream;
  std::atomic<uint32_t> wanted{0};
  std::atomic<uint32_t> done{0};
  std::atomic<bool> stop{false};
  std::exception_ptr error;
  std::thread thread;
};

namespace {

std::string channel_name(const std::pair<GroupId, StreamKind>& channel) {
  const auto& [group, stream] = channel;
  if (stream == StreamKind::kComm) return name_of(group);
  return name_of(group) + (stream == StreamKind::kPipe ? ".messages" : ".data");
}

}  // namespace

std::optional<GpuOptions> gpu_options(const RunSpec& spec, int device) {
  if (spec.train.device != TrainDevice::kCuda) return std::nullopt;
  return GpuOptions{device, spec.train.deterministic, spec.train.mark_every};
}

ExecutorOptions executor_options(const RunSpec& spec, int device) {
  ExecutorOptions options;
  options.gpu = gpu_options(spec, device);
  options.cuda_graph = spec.train.cuda_graph;
  return options;
}

Executor::Executor(const StepGraph& step, Program program, CommWorld& world,
                   ExecutorOptions options)
    : program_(std::move(program)),
      world_(world),
      options_(std::move(options)),
      workers_(program_.threads),
      gpu_(options_.gpu ? GpuRank::open(*options_.gpu, program_) : nullptr),
      events_(static_cast<size_t>(program_.num_events)),
      executed_(program_.instructions.size(), 0),
      clock_(program_),
      graph_(on_gpu() ? options_.cuda_graph : CudaGraph::kOff, on_gpu(), program_),
      fault_at_(find_fault()) {
  allocate_arenas();
  for (const Buffer& b : program_.buffers) {
    Tensor tensor;
    tensor.data = arenas_[static_cast<size_t>(b.arena)].data() + b.offset;
    tensor.dtype = b.dtype;
    tensor.num_dims = static_cast<int>(b.shape.size());
    std::copy(b.shape.begin(), b.shape.end(), tensor.dims.begin());
    tensors_.push_back(tensor);
  }
  for (const Instruction& i : program_.instructions) {
    const Channel channel = channel_of(i);
    if (i.stream == StreamKind::kCompute || groups_.contains(channel)) continue;
    groups_[channel] = world_.join(channel_name(channel), members_of(program_, channel.first));
  }
  allocate_staging();
  fill_rope_tables(step.spec.model.rope, held_rows(step.spec, program_.mesh, program_.rank));
  for (const StreamKind stream : kCommunicationStreams) {
    const bool used = std::any_of(program_.instructions.begin(), program_.instructions.end(),
                                  [&](const Instruction& i) { return i.stream == stream; });
    if (used) threads_.push_back(std::make_unique<StreamThread>(*this, stream));
  }
}

Executor::~Executor() = default;

void Executor::allocate_arenas() {
  for (const ArenaKind arena : kAllArenas) {
    const auto i = static_cast<size_t>(arena);
    const std::string name = fmt::format("rank {} {}", program_.rank, name_of(arena));
    const int64_t size_bytes = program_.arena_bytes[i];
    arenas_[i] = on_gpu() ? gpu_->allocate(name, size_bytes) : world_.allocate(name, size_bytes);
  }
}

void Executor::allocate_staging() {
  if (!on_gpu()) return;
  for (const BufferId id : {program_.tokens, program_.labels}) {
    if (id == kNoBuffer) continue;
    for (HostArena& half : staging_[id]) {
      half = cuda::allocate_pinned(program_.buffer(id).name, program_.buffer(id).bytes());
    }
  }
  if (program_.metrics == kNoBuffer) return;
  metrics_ = cuda::allocate_pinned("metrics", program_.buffer(program_.metrics).bytes());
}

int32_t* Executor::input(BufferId id) {
  if (!on_gpu()) return tensor(id).as<int32_t>();
  return reinterpret_cast<int32_t*>(staging_.at(id)[static_cast<size_t>(fill_)].data());
}

HostView Executor::view(BufferId id) const {
  HostView view{tensor(id), {}};
  if (!on_gpu()) return view;
  view.copy.resize(static_cast<size_t>(view.tensor.bytes()));
  gpu_->read(view.copy.data(), view.tensor.data, view.tensor.bytes());
  view.tensor.data = view.copy.data();
  return view;
}

void Executor::write(BufferId id, const HostView& contents) {
  if (on_gpu()) gpu_->write(tensor(id).data, contents.tensor.data, contents.tensor.bytes());
}

void Executor::edit(BufferId id, const std::function<void(const Tensor&)>& change) {
  const HostView host = view(id);
  change(host.tensor);
  write(id, host);
}

void Executor::fill_rope_tables(const RopeSpec& rope, const SequenceRows& rows) {
  if (program_.rope_cos == kNoBuffer) return;  // the model learns its positions
  const std::vector<double> frequencies =
      rope_frequencies(rope, 2 * program_.buffer(program_.rope_cos).shape[1]);
  const auto fill = [&](BufferId id, double (*function)(double)) {
    edit(id, [&](const Tensor& table) {
      for (int64_t token = 0; token < table.dim(0); ++token) {
        const auto position = static_cast<double>(rows.position(token));
        for (int64_t i = 0; i < table.dim(1); ++i) {
          write_element(table, token * table.dim(1) + i,
                        function(position * frequencies[static_cast<size_t>(i)]));
        }
      }
    });
  };
  fill(program_.rope_cos, [](double angle) { return std::cos(angle); });
  fill(program_.rope_sin, [](double angle) { return std::sin(angle); });
}

void Executor::fail(const std::string& what) {
  const std::string message = fmt::format("rank {}: {}", program_.rank, what);
  world_.abort(message);
  throw CommError(message);
}

void Executor::wait_for(const Instruction& instruction, size_t index) {
  const bool compute = instruction.stream == StreamKind::kCompute;
  for (const int event : instruction.waits) {
    const CommClock::Clock::time_point start = CommClock::Clock::now();
    const WaitResult result = wait_at_least(events_[static_cast<size_t>(event)], epoch_,
                                            &world_.abort_flag(), options_.timeout);
    if (compute) clock_.add_exposed(event, CommClock::Clock::now() - start);
    if (result == WaitResult::kReady) {
      if (on_gpu()) gpu_->wait(instruction.stream, event);
      continue;
    }
    if (result == WaitResult::kAborted) throw CommError(world_.abort_reason());
    const auto signaller =
        std::find_if(program_.instructions.begin(), program_.instructions.end(),
                     [&](const Instruction& other) { return other.signal == event; });
    fail(fmt::format("instruction {} ({} '{}') waited {} ms for {} '{}' of the same rank", index,
                     name_of(instruction.op), instruction.name, options_.timeout.count(),
                     name_of(signaller->op), signaller->name));
  }
}

Communicator& Executor::group(const Instruction& instruction) const {
  return *groups_.at(channel_of(instruction));
}

// Calls of one communicator go one after the other, from one thread: what has another stream has
// another communicator. Messages are told apart by their names, except in NCCL: what one rank sends
// before a collective, another may receive behind it.
Executor::Channel Executor::channel_of(const Instruction& instruction) const {
  const bool messages = instruction.stream == StreamKind::kPipe && world_.backend() == "nccl";
  const bool data = instruction.stream == StreamKind::kData;
  return {group_of(instruction), messages || data ? instruction.stream : StreamKind::kComm};
}

void Executor::communicate(const Instruction& instruction, uint32_t tag) {
  Communicator& peers = group(instruction);
  const Tensor in = instruction.inputs.empty() ? Tensor() : tensor(instruction.inputs[0]);
  const Tensor out = instruction.outputs.empty() ? Tensor() : tensor(instruction.outputs[0]);
  void* const stream = peers.stream_ordered() ? gpu_->stream(instruction.stream) : nullptr;
  if (instruction.collective == CastKind::kShift) {
    if (stream == nullptr) return shift(peers, in, out, tag);
    return peers.enqueue(shift_calls(peers, in, out, tag), stream);
  }
  const CollectiveCall call = call_of(instruction, peers.size(), in, out, tag);
  if (stream == nullptr) return peers.run(call);
  peers.enqueue(call, stream);
}

// Ranks of one group have different lists, so the tag is the place in the step, not the index.
void Executor::run_instruction(kernels::Context& context, const Instruction& instruction,
                               size_t index) {
  if (!is_communication(instruction.op)) return run_kernel(context, instruction, tensors_);
  // Its input is there, unless the GPU is to wait for it.
  if (on_gpu() && !group(instruction).stream_ordered()) wait_for_gpu(instruction.stream);
  const CommClock::Clock::time_point start = CommClock::Clock::now();
  communicate(instruction, static_cast<uint32_t>(hash_name(instruction.name)));
  clock_.add_busy(index, CommClock::Clock::now() - start);
}

void Executor::execute_stream(StreamKind stream) {
  const Tensor scratch = tensor(program_.scratch);
  kernels::Context context{
      workers_,
      {static_cast<std::byte*>(scratch.data), static_cast<size_t>(scratch.bytes())},
      on_gpu() ? gpu_->params() : &params_,
      on_gpu() ? gpu_->kernels() : nullptr};
  if (on_gpu()) gpu_->make_current();
  for (size_t i = 0; i < program_.instructions.size(); ++i) {
    const Instruction& instruction = program_.instructions[i];
    if (instruction.stream != stream) continue;
    try {
      execute(context, instruction, i);
    } catch (const CommError&) {
      throw_if_gpu_failed();
      throw;  // names the ranks already
    } catch (const Error& e) {
      throw_if_gpu_failed();
      throw Error(fmt::format("rank {}: step {}: instruction {} ({} '{}'): {}", program_.rank,
                              params_.step, i, name_of(instruction.op), instruction.name, e.what()),
                  e.code());
    }
  }
}

void Executor::execute(kernels::Context& context, const Instruction& instruction, size_t index) {
  wait_for(instruction, index);
  if (fault_at_ == index) gpu_->put_fault(options_.fault->step);
  const bool timed = times_.has_value() && !on_gpu();
  const auto start = timed ? CommClock::Clock::now() : CommClock::Clock::time_point();
  run_instruction(context, instruction, index);
  if (timed) {
    const std::chrono::duration<double> seconds = CommClock::Clock::now() - start;
    times_->add(index, seconds.count());
  }
  if (on_gpu() && instruction.stream == StreamKind::kCompute) gpu_->mark();
  if (probe_) {
    if (on_gpu()) wait_for_gpu(instruction.stream);
    probe_(index, instruction);
  }
  executed_[index] = hash_of(program_, instruction);
  if (instruction.signal < 0) return;
  if (on_gpu()) gpu_->record(instruction.stream, instruction.signal);
  publish(events_[static_cast<size_t>(instruction.signal)], epoch_);
}

std::optional<size_t> Executor::find_fault() const {
  if (!options_.fault) return std::nullopt;
  require_config(on_gpu(),
                 "--inject gpu-fault: the run is not on a GPU: use train.device = \"cuda\"");
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

void Executor::throw_if_gpu_failed() {
  if (!on_gpu()) return;
  const std::string words = gpu_->failure();
  if (!words.empty()) gpu_failed(words);
}

// The instruction that the GPU came to, or those between the last mark and the next.
std::string Executor::suspects() const {
  const int64_t first = gpu_->completed();
  const int64_t last = first + gpu_->marks_apart() - 1;
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
void Executor::gpu_failed(const std::string& words) {
  const bool shared = world_.size() > 1 && world_.backend() == "local";
  throw Error(fmt::format(
      "rank {}: step {}: {}: {}{}", program_.rank, params_.step, suspects(), words,
      shared ? fmt::format(" (or what another of the {} ranks on this GPU did)", world_.size())
             : ""));
}

void Executor::wait_for_gpu(StreamKind stream) {
  const auto end = CommClock::Clock::now() + options_.timeout;
  for (int64_t polls = 0;; ++polls) {
    try {
      if (gpu_->done(stream)) return;
    } catch (const Error& error) {
      gpu_failed(error.what());
    }
    if (world_.aborted()) throw CommError(world_.abort_reason());
    if (CommClock::Clock::now() > end) {
      fail(fmt::format("step {}: the GPU has not finished its {} stream within {} ms: it is at {}",
                       params_.step, name_of(stream), options_.timeout.count(), suspects()));
    }
    if (polls > 100) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

void Executor::start(const StepParams& params) {
  params_ = params;
  ++epoch_;
  std::fill(executed_.begin(), executed_.end(), 0);
  started_error_ = nullptr;
  if (!on_gpu()) return;
  gpu_->make_current();
  gpu_->begin_step(params_);
  for (const auto& [id, halves] : staging_) {
    const Tensor to = tensor(id);
    gpu_->copy_in(to.data, halves[static_cast<size_t>(fill_)].data(), to.bytes());
  }
  fill_ = 1 - fill_;
  launch();
}

void Executor::launch() {
  started_at_ = CommClock::Clock::now();
  launch_time_ = {};
  if (!watched() && (graph_.replays() || (graph_.captures() && capture()))) return replay();
  execute_compute();
  launch_time_ = CommClock::Clock::now() - started_at_;
}

void Executor::replay() {
  try {
    gpu_->launch_graph();
    executed_ = captured_;
  } catch (const std::exception& e) {
    started_error_ = std::current_exception();
    world_.abort(e.what());
  }
}

// Nothing of the step is run by this.
bool Executor::capture() {
  try {
    gpu_->begin_capture();
    execute_stream(StreamKind::kCompute);
    graph_.captured(gpu_->end_capture());
    captured_ = executed_;
    return true;
  } catch (const std::exception& e) {
    gpu_->abandon_capture();
    graph_.not_captured(e.what());
    return false;
  }
}

std::vector<std::string> Executor::notes() const {
  return on_gpu() ? gpu_->notes() : std::vector<std::string>();
}

void Executor::execute_compute() {
  for (const auto& thread : threads_) publish(thread->wanted, epoch_);
  try {
    execute_stream(StreamKind::kCompute);
  } catch (const std::exception& e) {
    started_error_ = std::current_exception();
    world_.abort(e.what());
  }
}

void Executor::tune() {
  // What is fastest may change from run to run, and with it the order of sums.
  if (!on_gpu() || options_.gpu->deterministic) return;
  gpu_->tune_products(true);
  const int half = fill_;
  run({});  // a learning rate of 0
  fill_ = half;
  gpu_->tune_products(false);
  const auto clear = [&](BufferId id) {
    if (id == kNoBuffer) return;
    edit(id, [](const Tensor& t) { std::memset(t.data, 0, static_cast<size_t>(t.bytes())); });
  };
  for (const BucketBuffers& bucket : program_.buckets) {
    clear(bucket.m);
    clear(bucket.v);
  }
  clear(program_.router_load);
}

// The one wait of a step: for its last instruction, and the numbers it reports.
void Executor::wait_for_step() {
  try {
    if (program_.metrics != kNoBuffer) {
      const Tensor metrics = tensor(program_.metrics);
      gpu_->copy_out(metrics_.data(), metrics.data, metrics.bytes());
    }
    for (const StreamKind stream : kCommunicationStreams) wait_for_gpu(stream);
    wait_for_gpu(StreamKind::kCompute);
  } catch (const Error&) {
    throw_if_gpu_failed();
    throw;
  }
  // A collective that was aborted leaves the stream to those behind it.
  if (world_.aborted()) throw CommError(world_.abort_reason());
  const std::string trouble = gpu_->trouble();
  require(trouble.empty(), "rank {}: step {}: {}", program_.rank, params_.step, trouble);
}

void Executor::settle_gpu() {
  try {
    wait_for_step();
  } catch (const std::exception& e) {
    started_error_ = std::current_exception();
    world_.abort(e.what());
    return;
  }
  if (launch_time_.count() == 0 || watched()) return;
  const std::chrono::duration<double> launching = launch_time_;
  const std::chrono::duration<double> step = CommClock::Clock::now() - started_at_;
  graph_.saw_step(launching.count(), step.count());
}

StepOutcome Executor::finish() {
  if (!on_gpu()) execute_compute();
  // Bounded: every wait of these threads is.
  for (const auto& thread : threads_) {
    const CommClock::Clock::time_point start = CommClock::Clock::now();
    while (wait_at_least(thread->done, epoch_, nullptr, std::chrono::seconds(1)) !=
           WaitResult::kReady) {
    }
    clock_.add_tail(thread->stream, CommClock::Clock::now() - start);
  }
  if (on_gpu() && started_error_ == nullptr) settle_gpu();
  // What went wrong first is what the world was aborted with.
  if (started_error_ != nullptr) std::rethrow_exception(started_error_);
  for (const auto& thread : threads_) {
    if (thread->error != nullptr) std::rethrow_exception(thread->error);
  }
  if (times_ && on_gpu()) add_gpu_times();
  if (times_) times_->add_step();
  return outcome();
}

// A kernel takes from the end of the one before it to its own: what it waits for is its time too.
void Executor::add_gpu_times() {
  size_t mark = 0;
  for (size_t i = 0; i < program_.instructions.size(); ++i) {
    if (program_.instructions[i].stream != StreamKind::kCompute) continue;
    times_->add(i, gpu_->mark_seconds(mark++));
  }
}

void Executor::time_instructions(bool on) {
  if (on_gpu()) gpu_->time_marks(on);
  times_.reset();
  if (on) times_.emplace(program_.instructions.size());
}

StepOutcome Executor::outcome() const {
  if (program_.metrics == kNoBuffer) return {};
  const Tensor metrics = tensor(program_.metrics);
  const auto* numbers =
      on_gpu() ? reinterpret_cast<const double*>(metrics_.data()) : metrics.as<double>();
  return outcome_of(numbers, metrics.numel(), params_.loss_scale);
}

StepOutcome Executor::run(const StepParams& params) {
  start(params);
  return finish();
}

int64_t Executor::executed_instructions() const {
  return std::count_if(executed_.begin(), executed_.end(), [](uint64_t h) { return h != 0; });
}

int64_t Executor::arena_bytes(ArenaKind arena) const {
  return arenas_[static_cast<size_t>(arena)].size_bytes();
}

void Executor::reset_traffic() {
  for (const auto& [channel, peers] : groups_) counted_before_[channel] = peers->counters();
}

std::vector<Traffic> Executor::traffic() const {
  std::map<std::pair<std::string, std::string>, TrafficCounter> by_name;
  for (const auto& [channel, peers] : groups_) {
    const TrafficCounters counters = peers->counters();
    const auto before = counted_before_.find(channel);
    for (int op = 0; op < kNumCollectiveOps; ++op) {
      TrafficCounter counter = counters[static_cast<size_t>(op)];
      if (before != counted_before_.end()) {
        counter.calls -= before->second[static_cast<size_t>(op)].calls;
        counter.bytes_sent -= before->second[static_cast<size_t>(op)].bytes_sent;
      }
      if (counter.calls == 0) continue;
      TrafficCounter& sum =
          by_name[{name_of(channel.first), std::string(name_of(static_cast<CollectiveOp>(op)))}];
      sum.calls += counter.calls;
      sum.bytes_sent += counter.bytes_sent;
    }
  }
  std::vector<Traffic> list;
  for (const auto& [name, sum] : by_name) {
    list.push_back({name.first, name.second, sum.calls, sum.bytes_sent});
  }
  return list;
}

}  // namespace tessera
