#include "runtime/executor.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/hash.h"
#include "comm/work_note.h"
#include "compile/model/context.h"
#include "runtime/calls.h"
#include "runtime/device/fail_rank.h"
#include "runtime/rope_table.h"
#include "runtime/shift.h"

namespace tessera {

static_assert(kNumStreams <= WorkNote::kStreams);

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
        owner.rank_.world().abort(e.what());
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

Executor::Executor(Rank& rank, const StepGraph& step, Program program, ExecutorOptions options)
    : rank_(rank),
      program_(std::move(program)),
      options_(std::move(options)),
      memory_(rank.memory().admit(program_)),
      peers_(program_.instructions.size(), nullptr),
      events_(static_cast<size_t>(program_.num_events)),
      executed_(program_.instructions.size(), 0),
      clock_(program_) {
  require(program_.threads == rank_.threads(),
          "rank {}: the Program is compiled for {} threads, but the rank has {}; use the "
          "train.threads of the run that the rank was made for",
          program_.rank, program_.threads, rank_.threads());
  for (size_t i = 0; i < program_.instructions.size(); ++i) {
    const Instruction& instruction = program_.instructions[i];
    if (instruction.stream == StreamKind::kCompute) continue;
    peers_[i] = &rank_.channels().open(program_, instruction);
  }
  streams_ = rank_.device().open_streams(program_, memory_.tensors(), options_);
  for (int stream = 0; stream < kNumStreams; ++stream) {
    WorkNote* const note = rank_.world().work_note(stream);
    notes_[static_cast<size_t>(stream)] = note;
    if (note != nullptr) note->set_stream(name_of(static_cast<StreamKind>(stream)));
  }
  fill_rope_tables(memory_, program_, step.spec.model.rope,
                   held_rows(step.spec, program_.mesh, program_.rank));
  for (const StreamKind stream : kCommunicationStreams) {
    const bool used = std::any_of(program_.instructions.begin(), program_.instructions.end(),
                                  [&](const Instruction& i) { return i.stream == stream; });
    if (used) threads_.push_back(std::make_unique<StreamThread>(*this, stream));
  }
}

Executor::~Executor() = default;

void Executor::wait_for(const Instruction& instruction, size_t index) {
  CommWorld& world = rank_.world();
  const bool compute = instruction.stream == StreamKind::kCompute;
  for (const int event : instruction.waits) {
    const CommClock::Clock::time_point start = CommClock::Clock::now();
    const WaitResult result = wait_at_least(events_[static_cast<size_t>(event)], epoch_,
                                            &world.abort_flag(), options_.timeout);
    if (compute) clock_.add_exposed(event, CommClock::Clock::now() - start);
    if (result == WaitResult::kReady) {
      streams_->wait(instruction.stream, event);
      continue;
    }
    if (result == WaitResult::kAborted) throw CommError(world.abort_reason());
    const auto signaller =
        std::find_if(program_.instructions.begin(), program_.instructions.end(),
                     [&](const Instruction& other) { return other.signal == event; });
    fail_rank(world, program_.rank,
              fmt::format("instruction {} ({} '{}') waited {} ms for {} '{}' of the same rank",
                          index, name_of(instruction.op), instruction.name,
                          options_.timeout.count(), name_of(signaller->op), signaller->name));
  }
}

// Ranks of one group have different lists, so the tag is the place in the step, not the index.
void Executor::communicate(Communicator& peers, const Instruction& instruction) {
  const auto tag = static_cast<uint32_t>(hash_name(instruction.name));
  const auto first = [&](const std::vector<BufferId>& ids) {
    return ids.empty() ? Tensor() : memory_.tensor(ids[0]);
  };
  const Tensor in = first(instruction.inputs);
  const Tensor out = first(instruction.outputs);
  void* const stream = peers.stream_ordered() ? streams_->handle(instruction.stream) : nullptr;
  if (instruction.collective == CastKind::kShift) {
    if (stream == nullptr) return shift(peers, in, out, tag);
    return peers.enqueue(shift_calls(peers, in, out, tag), stream);
  }
  const CollectiveCall call = call_of(instruction, peers.size(), in, out, tag);
  if (stream == nullptr) return peers.run(call);
  peers.enqueue(call, stream);
}

void Executor::run_instruction(kernels::Context& context, const Instruction& instruction,
                               size_t index) {
  if (!is_communication(instruction.op)) {
    const PhaseClock::Clock::time_point start = PhaseClock::Clock::now();
    run_kernel(context, instruction, memory_.tensors());
    phases_.add(instruction.tag.pass, PhaseClock::Clock::now() - start);
    return;
  }
  Communicator& peers = *peers_[index];
  // Its input is there, unless the stream is to wait for it.
  if (!peers.stream_ordered()) streams_->drain(instruction.stream);
  const CommClock::Clock::time_point start = CommClock::Clock::now();
  communicate(peers, instruction);
  clock_.add_busy(index, CommClock::Clock::now() - start);
}

void Executor::execute(kernels::Context& context, const Instruction& instruction, size_t index) {
  wait_for(instruction, index);
  streams_->before(index, instruction);
  run_instruction(context, instruction, index);
  streams_->after(index, instruction);
  if (probe_) {
    streams_->drain(instruction.stream);
    probe_(index, instruction);
  }
  executed_[index] = hash_of(program_, instruction);
  if (instruction.signal < 0) return;
  streams_->signal(instruction.stream, instruction.signal);
  publish(events_[static_cast<size_t>(instruction.signal)], epoch_);
}

void Executor::execute_stream(StreamKind stream) {
  kernels::Context context = streams_->enter();
  WorkNote* const note = notes_[static_cast<size_t>(stream)];
  for (size_t i = 0; i < program_.instructions.size(); ++i) {
    const Instruction& instruction = program_.instructions[i];
    if (instruction.stream != stream) continue;
    if (note != nullptr) {
      note->begin(static_cast<int64_t>(i), instruction.micro_batch, name_of(instruction.op),
                  instruction.name);
    }
    try {
      execute(context, instruction, i);
    } catch (const CommError&) {
      streams_->throw_if_failed();
      throw;  // names the ranks already
    } catch (const Error& e) {
      streams_->throw_if_failed();
      throw Error(fmt::format("rank {}: step {}: instruction {} ({} '{}'): {}", program_.rank,
                              params_.step, i, name_of(instruction.op), instruction.name, e.what()),
                  e.code());
    }
  }
  if (note != nullptr) note->end();
}

void Executor::attempt(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::exception& e) {
    error_ = std::current_exception();
    rank_.world().abort(e.what());
  }
}

void Executor::launch() {
  for (const auto& thread : threads_) publish(thread->wanted, epoch_);
  attempt([this] { launch_compute(); });
}

void Executor::start(const StepParams& params) {
  params_ = params;
  ++epoch_;
  std::fill(executed_.begin(), executed_.end(), 0);
  error_ = nullptr;
  streams_->begin_step(params_, *this);
}

// Bounded: every wait of these threads is.
void Executor::wait_for_threads() {
  for (const auto& thread : threads_) {
    const CommClock::Clock::time_point start = CommClock::Clock::now();
    while (wait_at_least(thread->done, epoch_, nullptr, std::chrono::seconds(1)) !=
           WaitResult::kReady) {
    }
    clock_.add_tail(thread->stream, CommClock::Clock::now() - start);
  }
}

StepOutcome Executor::finish() {
  streams_->end_step(*this);
  wait_for_threads();
  if (error_ == nullptr) attempt([this] { streams_->settle(); });
  // What went wrong first is what the world was aborted with.
  if (error_ != nullptr) std::rethrow_exception(error_);
  for (const auto& thread : threads_) {
    if (thread->error != nullptr) std::rethrow_exception(thread->error);
  }
  if (times_) times_->add_step();
  return outcome();
}

StepOutcome Executor::run(const StepParams& params) {
  start(params);
  return finish();
}

StepOutcome Executor::outcome() const {
  const double* const metrics = streams_->metrics();
  if (metrics == nullptr) return {};
  return outcome_of(metrics, memory_.tensor(program_.metrics).numel(), params_.loss_scale);
}

bool Executor::tune() {
  if (!streams_->begin_tuning()) return false;
  StepParams changes_nothing;
  changes_nothing.most_norm = -1;  // every norm is above it, and the update is left out
  run(changes_nothing);
  streams_->end_tuning();
  if (program_.router_load != kNoBuffer) {
    edit(program_.router_load,
         [](const Tensor& t) { std::memset(t.data, 0, static_cast<size_t>(t.bytes())); });
  }
  return true;
}

void Executor::time_instructions(bool on) {
  times_.reset();
  if (on) times_.emplace(program_.instructions.size());
  streams_->time_instructions(on ? &*times_ : nullptr);
}

int64_t Executor::executed_instructions() const {
  return std::count_if(executed_.begin(), executed_.end(), [](uint64_t h) { return h != 0; });
}

}  // namespace tessera
