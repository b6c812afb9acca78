#include "runtime/executor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <thread>
#include <tuple>

#include "base/hash.h"
#include "compile/context.h"
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

std::optional<GpuOptions> gpu_options(const RunSpec& spec, int device) {
  if (spec.train.device != "cuda") return std::nullopt;
  return GpuOptions{device, spec.train.deterministic};
}

Executor::Executor(const StepGraph& step, Program program, CommWorld& world,
                   ExecutorOptions options)
    : program_(std::move(program)),
      world_(world),
      options_(options),
      workers_(program_.threads),
      gpu_(options.gpu ? GpuRank::open(*options.gpu, program_) : nullptr),
      events_(static_cast<size_t>(program_.num_events)),
      executed_(program_.instructions.size(), 0),
      clock_(program_) {
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
    const GroupId id = group_of(i);
    if (i.stream == StreamKind::kCompute || groups_.contains(id)) continue;
    groups_[id] = world_.join(name_of(id), members_of(program_, id));
  }
  allocate_staging();
  fill_rope_tables(step.spec.model.rope, held_rows(step.spec, program_.mesh, program_.rank));
  for (const StreamKind stream : {StreamKind::kComm, StreamKind::kPipe}) {
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

void Executor::communicate(const Instruction& instruction, uint32_t tag) {
  if (instruction.stream != StreamKind::kPipe) return run_collective(instruction, tag);
  Communicator& group = *groups_.at(group_of(instruction));
  if (instruction.op == OpKind::kSend) {
    const Tensor in = tensor(instruction.inputs[0]);
    return group.send(in.data, in.numel(), in.dtype, instruction.peer, tag);
  }
  const Tensor out = tensor(instruction.outputs[0]);
  return group.receive(out.data, out.numel(), out.dtype, instruction.peer, tag);
}

void Executor::run_collective(const Instruction& instruction, uint32_t tag) {
  Communicator& group = *groups_.at(group_of(instruction));
  const Tensor in = tensor(instruction.inputs[0]);
  const Tensor out = tensor(instruction.outputs[0]);
  switch (instruction.collective) {
    case CastKind::kAllReduce:
      return group.all_reduce(out.data, out.numel(), out.dtype, tag);
    case CastKind::kAllGather:
      return group.all_gather(in.data, out.data, in.numel(), in.dtype, tag);
    case CastKind::kAllToAll:
      return group.all_to_all(in.data, out.data, in.numel() / group.size(), in.dtype, tag);
    case CastKind::kShift:
      return shift(group, in, out, tag);
    case CastKind::kReduceScatter:
      return group.reduce_scatter(in.data, out.data, out.numel(), in.dtype, tag);
    default:
      TESSERA_CHECK(false, "{} is not executed", collective_name(instruction.collective));
  }
}

// Ranks of one group have different lists, so the tag is the place in the step, not the index.
void Executor::run_instruction(kernels::Context& context, const Instruction& instruction,
                               size_t index) {
  if (!is_communication(instruction.op)) return run_kernel(context, instruction, tensors_);
  if (on_gpu()) wait_for_gpu(instruction.stream);  // its input is there
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
    wait_for(instruction, i);
    try {
      const bool timed = times_.has_value() && !on_gpu();
      const auto start = timed ? CommClock::Clock::now() : CommClock::Clock::time_point();
      run_instruction(context, instruction, i);
      if (timed) {
        const std::chrono::duration<double> seconds = CommClock::Clock::now() - start;
        times_->add(i, seconds.count());
      }
      if (on_gpu() && stream == StreamKind::kCompute) gpu_->mark();
      if (probe_) {
        if (on_gpu()) wait_for_gpu(stream);
        probe_(i, instruction);
      }
    } catch (const CommError&) {
      throw;  // names the ranks already
    } catch (const Error& e) {
      throw Error(fmt::format("rank {}: instruction {} ({} '{}'): {}", program_.rank, i,
                              name_of(instruction.op), instruction.name, e.what()),
                  e.code());
    }
    executed_[i] = hash_of(program_, instruction);
    if (instruction.signal < 0) continue;
    if (on_gpu()) gpu_->record(stream, instruction.signal);
    publish(events_[static_cast<size_t>(instruction.signal)], epoch_);
  }
}

// The GPU tells of a failure late: the instruction that it came to is the one to name.
void Executor::gpu_failed(const Error& error) {
  int64_t left = gpu_->completed();
  for (size_t i = 0; i < program_.instructions.size(); ++i) {
    const Instruction& instruction = program_.instructions[i];
    if (instruction.stream != StreamKind::kCompute || left-- > 0) continue;
    throw Error(
        fmt::format("rank {}: step {}: instruction {} ({} '{}'): {}", program_.rank, params_.step,
                    i, name_of(instruction.op), instruction.name, error.what()),
        error.code());
  }
  throw Error(fmt::format("rank {}: step {}: {}", program_.rank, params_.step, error.what()),
              error.code());
}

void Executor::wait_for_gpu(StreamKind stream) {
  const auto end = CommClock::Clock::now() + options_.timeout;
  for (int64_t polls = 0;; ++polls) {
    try {
      if (gpu_->done(stream)) return;
    } catch (const Error& error) {
      gpu_failed(error);
    }
    if (world_.aborted()) throw CommError(world_.abort_reason());
    if (CommClock::Clock::now() > end) {
      fail(fmt::format("the GPU has not finished its {} stream within {} ms ({} instructions done)",
                       name_of(stream), options_.timeout.count(), gpu_->completed()));
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
  execute_compute();
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
void Executor::settle_gpu() {
  try {
    if (program_.metrics != kNoBuffer) {
      const Tensor metrics = tensor(program_.metrics);
      gpu_->copy_out(metrics_.data(), metrics.data, metrics.bytes());
    }
    for (const StreamKind stream : {StreamKind::kComm, StreamKind::kPipe, StreamKind::kCompute}) {
      wait_for_gpu(stream);
    }
    const std::string trouble = gpu_->trouble();
    require(trouble.empty(), "rank {}: step {}: {}", program_.rank, params_.step, trouble);
  } catch (const std::exception& e) {
    started_error_ = std::current_exception();
    world_.abort(e.what());
  }
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

std::vector<Traffic> Executor::traffic() const {
  std::vector<Traffic> list;
  for (const auto& [axes, group] : groups_) {
    const TrafficCounters counters = group->counters();
    for (int op = 0; op < kNumCollectiveOps; ++op) {
      const TrafficCounter& counter = counters[static_cast<size_t>(op)];
      if (counter.calls == 0) continue;
      list.push_back({group->name(), std::string(name_of(static_cast<CollectiveOp>(op))),
                      counter.calls, counter.bytes_sent});
    }
  }
  std::sort(list.begin(), list.end(), [](const Traffic& a, const Traffic& b) {
    return std::tie(a.group, a.op) < std::tie(b.group, b.op);
  });
  return list;
}

}  // namespace tessera
