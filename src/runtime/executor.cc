#include "runtime/executor.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <thread>
#include <tuple>

#include "base/hash.h"
#include "compile/context.h"
#include "runtime/rope_table.h"
#include "runtime/shift.h"

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

Executor::Executor(const StepGraph& step, Program program, CommWorld& world,
                   ExecutorOptions options)
    : program_(std::move(program)),
      world_(world),
      options_(options),
      workers_(program_.threads),
      events_(static_cast<size_t>(program_.num_events)),
      executed_(program_.instructions.size(), 0),
      clock_(program_) {
  for (const ArenaKind arena : kAllArenas) {
    const auto i = static_cast<size_t>(arena);
    arenas_[i] = world_.allocate(fmt::format("rank {} {}", program_.rank, name_of(arena)),
                                 program_.arena_bytes[i]);
  }
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
  fill_rope_tables(step.spec.model.rope, held_rows(step.spec, program_.mesh, program_.rank));
  for (const StreamKind stream : {StreamKind::kComm, StreamKind::kPipe}) {
    const bool used = std::any_of(program_.instructions.begin(), program_.instructions.end(),
                                  [&](const Instruction& i) { return i.stream == stream; });
    if (used) threads_.push_back(std::make_unique<StreamThread>(*this, stream));
  }
}

Executor::~Executor() = default;

void Executor::fill_rope_tables(const RopeSpec& rope, const SequenceRows& rows) {
  if (program_.rope_cos == kNoBuffer) return;  // the model learns its positions
  const Tensor cos = tensor(program_.rope_cos);
  const Tensor sin = tensor(program_.rope_sin);
  const std::vector<double> frequencies = rope_frequencies(rope, 2 * cos.dim(1));
  for (int64_t token = 0; token < cos.dim(0); ++token) {
    const auto position = static_cast<double>(rows.position(token));
    for (int64_t i = 0; i < cos.dim(1); ++i) {
      const double angle = position * frequencies[static_cast<size_t>(i)];
      const int64_t at = token * cos.dim(1) + i;
      if (cos.dtype == DType::kF64) {
        cos.as<double>()[at] = std::cos(angle);
        sin.as<double>()[at] = std::sin(angle);
      } else {
        cos.as<float>()[at] = static_cast<float>(std::cos(angle));
        sin.as<float>()[at] = static_cast<float>(std::sin(angle));
      }
    }
  }
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
    if (result == WaitResult::kReady) continue;
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

void Executor::execute_stream(StreamKind stream) {
  const Tensor scratch = tensor(program_.scratch);
  kernels::Context context{
      workers_,
      {static_cast<std::byte*>(scratch.data), static_cast<size_t>(scratch.bytes())},
      &params_};
  for (size_t i = 0; i < program_.instructions.size(); ++i) {
    const Instruction& instruction = program_.instructions[i];
    if (instruction.stream != stream) continue;
    wait_for(instruction, i);
    try {
      if (is_communication(instruction.op)) {
        // Ranks of one group have different lists, so the tag is the place in the step, not the
        // index.
        const CommClock::Clock::time_point start = CommClock::Clock::now();
        communicate(instruction, static_cast<uint32_t>(hash_name(instruction.name)));
        clock_.add_busy(i, CommClock::Clock::now() - start);
      } else {
        run_kernel(context, instruction, tensors_);
      }
      if (probe_) probe_(i, instruction);
    } catch (const CommError&) {
      throw;  // names the ranks already
    } catch (const Error& e) {
      throw Error(fmt::format("rank {}: instruction {} ({} '{}'): {}", program_.rank, i,
                              name_of(instruction.op), instruction.name, e.what()),
                  e.code());
    }
    executed_[i] = hash_of(program_, instruction);
    if (instruction.signal >= 0) publish(events_[static_cast<size_t>(instruction.signal)], epoch_);
  }
}

StepOutcome Executor::run(const StepParams& params) {
  params_ = params;
  ++epoch_;
  std::fill(executed_.begin(), executed_.end(), 0);
  for (const auto& thread : threads_) publish(thread->wanted, epoch_);
  std::exception_ptr error;
  try {
    execute_stream(StreamKind::kCompute);
  } catch (const std::exception& e) {
    error = std::current_exception();
    world_.abort(e.what());
  }
  // Bounded: every wait of these threads is.
  for (const auto& thread : threads_) {
    const CommClock::Clock::time_point start = CommClock::Clock::now();
    while (wait_at_least(thread->done, epoch_, nullptr, std::chrono::seconds(1)) !=
           WaitResult::kReady) {
    }
    clock_.add_tail(thread->stream, CommClock::Clock::now() - start);
  }
  // What went wrong first is what the world was aborted with.
  if (error != nullptr) std::rethrow_exception(error);
  for (const auto& thread : threads_) {
    if (thread->error != nullptr) std::rethrow_exception(thread->error);
  }
  if (program_.metrics == kNoBuffer) return {};
  const Tensor metrics = tensor(program_.metrics);
  return outcome_of(metrics.as<double>(), metrics.numel(), params_.loss_scale);
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
