#include "comm/nccl/nccl_communicator.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "comm/nccl/issue.h"
#include "comm/nccl/traffic.h"
#include "comm/shared/call_shape.h"

namespace tessera::nccl {
namespace {

// Most calls end within a millisecond; a thread that waits longer leaves the core to others.
void pause(std::chrono::nanoseconds waited) {
  if (waited < std::chrono::milliseconds(1)) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

// How often a rank that waits looks whether the others are still there.
constexpr std::chrono::milliseconds kBetweenLooks{10};

// A process that was killed is gone only when its GPU memory is.
constexpr std::chrono::milliseconds kMomentForTheHost{5'000};
constexpr std::chrono::milliseconds kMomentForTheLate{5'000};

double seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1e3; }

}  // namespace

void RankState::progress() {
  gpu->make_current();
  for (NcclCommunicator* group : groups) group->progress();
}

void RankState::watch() {
  if (watcher_ == nullptr) watcher_ = std::make_unique<Watcher>(mutex, [this] { return look(); });
  watcher_->wake();
}

// Only the oldest call can be late: those behind it on the stream wait for it.
bool RankState::look() {
  (void)gpu->library->cudaSetDevice(gpu->device);
  NcclCommunicator* waiting = nullptr;
  uint64_t oldest = 0;
  for (NcclCommunicator* group : groups) {
    const uint64_t enqueued = group->watch();
    if (enqueued == 0 || (oldest != 0 && enqueued > oldest)) continue;
    waiting = group;
    oldest = enqueued;
  }
  const auto now = std::chrono::steady_clock::now();
  if (oldest != oldest_) oldest_since_ = now;
  oldest_ = oldest;
  if (waiting == nullptr) return false;
  waiting->watch_oldest(std::chrono::duration_cast<std::chrono::milliseconds>(now - oldest_since_));
  return true;
}

NcclCommunicator::NcclCommunicator(RankState& state, std::string name,
                                   std::unique_ptr<Communicator> calls,
                                   std::unique_ptr<Communicator> replies)
    : state_(state),
      gpu_(*state.gpu),
      name_(std::move(name)),
      calls_(std::move(calls)),
      replies_(std::move(replies)),
      host_groups_{*calls_, *replies_},
      connection_(state.gpu, state.options.abort_patience),
      num_sent_(static_cast<size_t>(size())),
      num_received_(static_cast<size_t>(size())) {
  gpu_.make_current();
  gpu_.check(gpu_.library->cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
             "making a stream");
  const std::scoped_lock lock(state_.mutex);
  state_.groups.push_back(this);
}

NcclCommunicator::~NcclCommunicator() {
  const std::scoped_lock lock(state_.mutex);
  std::erase(state_.groups, this);
  try {
    if (!state_.options.host.aborted()) advance_running();  // of enqueued calls nobody has asked
  } catch (const Error&) {
    // Then it is aborted.
  }
  if (!queue_.empty() || state_.options.host.aborted()) connection_.abort();
  for (Queue* queue : {&queue_, &spare_}) {
    for (const InFlight& entry : *queue) {
      (void)gpu_.library->cudaEventDestroy(entry.input);
      (void)gpu_.library->cudaEventDestroy(entry.done);
    }
  }
  (void)gpu_.library->cudaStreamDestroy(stream_);
}

Work NcclCommunicator::start(const CollectiveCall& call) {
  const std::scoped_lock lock(state_.mutex);
  guard(call, [&] {
    gpu_.make_current();
    check_arguments(call);
    check_not_aborted(call);
    InFlight& entry = admit(call);
    auto* const input_stream = static_cast<cudaStream_t>(state_.options.input_stream);
    gpu_.check(gpu_.library->cudaEventRecord(entry.input, input_stream), "marking the input");
    meet(entry);
  });
  const uint64_t ticket = started_;
  progress();
  return {this, ticket};
}

void NcclCommunicator::enqueue(std::span<const CollectiveCall> calls, void* stream) {
  if (calls.empty()) return;
  uint64_t ticket = 0;
  {
    const std::scoped_lock lock(state_.mutex);
    guard(calls[0], [&] {
      gpu_.make_current();
      for (const CollectiveCall& call : calls) {
        require(calls.size() == 1 || is_point_to_point(call.op),
                "one launch has one collective, or messages alone");
        check_arguments(call);
        check_not_aborted(call);
      }
      for (const CollectiveCall& call : calls) {
        InFlight& entry = admit(call);
        entry.stream = static_cast<cudaStream_t>(stream);
        entry.enqueued = ++state_.num_enqueued;
        entry.with_next = &call != &calls.back();
        meet(entry);
      }
    });
    ticket = started_;
  }
  (void)wait_until([&] { return launched(ticket); }, std::chrono::milliseconds(-1));
  const std::scoped_lock lock(state_.mutex);
  state_.watch();
}

void NcclCommunicator::check_not_aborted(const CollectiveCall& call) {
  if (!state_.options.host.aborted()) return;
  throw_aborted(fmt::format("called {} after", describe_next(call)));
}

void NcclCommunicator::run(const CollectiveCall& call) { start(call).wait(); }

std::unique_ptr<Communicator> NcclCommunicator::split(int color, int key, const std::string& name) {
  std::unique_ptr<Communicator> calls = calls_->split(color, key, name + "/nccl");
  std::unique_ptr<Communicator> replies = replies_->split(color, key, name + "/nccl-replies");
  if (calls == nullptr) return nullptr;
  return std::make_unique<NcclCommunicator>(state_, name, std::move(calls), std::move(replies));
}

void NcclCommunicator::check_arguments(const CollectiveCall& call) {
  CollectiveCall any_algorithm = call;  // NCCL chooses
  any_algorithm.algorithm = Algorithm::kAuto;
  std::string wrong = shared::what_is_wrong(any_algorithm, rank(), size());
  if (wrong.empty() && is_point_to_point(call.op) && call.root == rank()) {
    wrong = "that is the caller itself: copy instead";
  }
  if (wrong.empty() && reduces(call.op) && along_tree(call.reduce)) {
    wrong = "NCCL adds in an order of its own: use sum";
  }
  if (!wrong.empty()) {
    fail(fmt::format("rank {} called {}: {}", world_rank(), describe_next(call), wrong));
  }
  const bool broadcasts = call.op == CollectiveOp::kBroadcast;  // from and to `out`
  if (!broadcasts && shared::input_bytes(call, rank(), size()) > 0) {
    check_on_gpu(call, call.in, "input");
  }
  if ((broadcasts && call.count > 0) || shared::output_bytes(call, rank(), size()) > 0) {
    check_on_gpu(call, call.out, "output");
  }
}

void NcclCommunicator::check_on_gpu(const CollectiveCall& call, const void* data,
                                    const char* which) {
  cudaPointerAttributes attributes = {};
  gpu_.check(gpu_.library->cudaPointerGetAttributes(&attributes, data), "looking at a buffer");
  const bool on_gpu =
      attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
  if (on_gpu && attributes.device == gpu_.device) return;
  const std::string where = on_gpu ? fmt::format("on GPU {}", attributes.device) : "in host memory";
  fail(fmt::format("rank {} called {}: the {} is {}; it must be memory of GPU {} (allocate_device)",
                   world_rank(), describe_next(call), which, where, gpu_.device));
}

// The call's place in the queue, for the group's own stream.
NcclCommunicator::InFlight& NcclCommunicator::admit(const CollectiveCall& call) {
  if (link_ == Link::kNone) introduce();
  if (spare_.empty()) {
    InFlight& entry = spare_.emplace_back();
    for (cudaEvent_t* event : {&entry.input, &entry.done}) {
      gpu_.check(gpu_.library->cudaEventCreateWithFlags(event, cudaEventDisableTiming),
                 "making an event");
    }
  }
  if (queue_.empty()) last_progress_ = Clock::now();
  queue_.splice(queue_.end(), spare_, spare_.begin());
  InFlight& entry = queue_.back();
  entry.call = call;
  entry.ticket = ++started_;
  entry.sequence = ++counter_of(call);
  entry.stage = Stage::kMeeting;
  entry.stream = stream_;
  entry.enqueued = 0;
  entry.with_next = false;
  return entry;
}

uint64_t& NcclCommunicator::counter_of(const CollectiveCall& call) {
  if (!is_point_to_point(call.op)) return num_collectives_;
  const auto peer = static_cast<size_t>(call.root);
  return call.op == CollectiveOp::kSend ? num_sent_[peer] : num_received_[peer];
}

void NcclCommunicator::meet(InFlight& entry) {
  const auto every = static_cast<uint64_t>(state_.options.check_every);
  const bool always = is_point_to_point(entry.call.op) || entry.call.op == CollectiveOp::kBarrier;
  if (size() > 1 && (always || (every > 0 && entry.sequence % every == 0))) {
    entry.handshake.begin(host_groups_, entry.call, entry.sequence);
  } else {
    entry.handshake.skip();
  }
}

void NcclCommunicator::introduce() {
  link_ = Link::kIntroducing;
  last_progress_ = Clock::now();
  if (rank() == 0) gpu_.check(gpu_.library->ncclGetUniqueId(&mine_.id), "making an id");
  char bus[32] = {};
  char host[32] = {};
  gpu_.check(gpu_.library->cudaDeviceGetPCIBusId(bus, sizeof(bus), gpu_.device), "naming the GPU");
  (void)gethostname(host, sizeof(host) - 1);
  fmt::format_to_n(mine_.gpu, sizeof(mine_.gpu) - 1, "{} of {}", bus, host);
  introductions_.assign(static_cast<size_t>(size()), mine_);
  if (size() == 1) return;
  introduction_ = calls_->start({.op = CollectiveOp::kAllGather,
                                 .dtype = DType::kU8,
                                 .count = sizeof(Introduction),
                                 .in = &mine_,
                                 .out = introductions_.data()});
}

bool NcclCommunicator::connected() {
  if (link_ == Link::kConnected) return true;
  if (link_ == Link::kIntroducing) {
    if (!introduction_.test()) return false;
    connection_.begin(introductions_[0].id, size(), rank());
    link_ = Link::kConnecting;
    last_progress_ = Clock::now();
  }
  try {
    if (!connection_.settled()) return false;
  } catch (const Error& error) {
    throw Error(fmt::format("{}{}", error.what(), shared_gpus()));
  }
  link_ = Link::kConnected;
  last_progress_ = Clock::now();
  return true;
}

// The usual reason why NCCL does not connect.
std::string NcclCommunicator::shared_gpus() const {
  for (size_t rank = 0; rank < introductions_.size(); ++rank) {
    for (size_t other = 0; other < rank; ++other) {
      const std::string gpu = introductions_[rank].gpu;
      if (gpu != introductions_[other].gpu) continue;
      return fmt::format(
          "; rank {} and rank {} use the same GPU ({}), and NCCL wants one for each rank: start "
          "fewer ranks, or give each its own device",
          members()[other], members()[rank], gpu);
    }
  }
  return "";
}

void NcclCommunicator::progress() {
  if (queue_.empty()) return;
  const InFlight& oldest = queue_.front();
  if (state_.options.host.aborted()) {
    throw_aborted(fmt::format("was waiting in {} when", describe(oldest)));
  }
  guard(oldest.call, [&] { advance(); });
}

// Whatever fails in `step` ends the world, and NCCL with it.
template <typename Step>
void NcclCommunicator::guard(const CollectiveCall& call, const Step& step) {
  try {
    step();
  } catch (const CommError&) {  // the world is aborted already
    connection_.abort();
    throw;
  } catch (const Error& error) {
    if (somebody_was_lost()) throw_aborted(fmt::format("was in {} when", name_of(call.op)));
    fail(fmt::format("rank {} in {}: {}", world_rank(), name_of(call.op), error.what()));
  }
}

// NCCL may see a connection end before the host has noticed that a rank died. Only the host knows
// which one, so it gets a moment.
bool NcclCommunicator::somebody_was_lost() {
  const auto deadline = Clock::now() + kMomentForTheHost;
  while (size() > 1 && !state_.options.host.aborted() && Clock::now() < deadline) {
    state_.options.host.look_for_lost_ranks();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return state_.options.host.aborted();
}

void NcclCommunicator::advance() {
  if (!connected()) return;
  advance_launching();
  advance_running();
  launch_ready();
}

void NcclCommunicator::advance_launching() {
  const bool launching = std::any_of(queue_.begin(), queue_.end(), [](const InFlight& entry) {
    return entry.stage == Stage::kLaunching;
  });
  if (!launching || !connection_.settled()) return;
  for (InFlight& entry : queue_) {
    if (entry.stage != Stage::kLaunching) continue;
    if (entry.in_copy != nullptr) {
      gpu_.check(gpu_.library->cudaFreeAsync(std::exchange(entry.in_copy, nullptr), entry.stream),
                 "freeing");
    }
    gpu_.check(gpu_.library->cudaEventRecord(entry.done, entry.stream), "marking the end");
    entry.stage = Stage::kRunning;
    last_progress_ = Clock::now();
  }
}

void NcclCommunicator::advance_running() {
  while (!queue_.empty() && queue_.front().stage == Stage::kRunning) {
    const cudaError_t status = gpu_.library->cudaEventQuery(queue_.front().done);
    if (status == cudaErrorNotReady) {
      (void)connection_.settled();  // throws when a peer or a link was lost
      return;
    }
    gpu_.check(status, "running the collective");
    completed_ = queue_.front().ticket;
    spare_.splice(spare_.end(), queue_, queue_.begin());
    last_progress_ = Clock::now();
  }
}

void NcclCommunicator::launch_ready() {
  const auto first = std::find_if(queue_.begin(), queue_.end(), [](const InFlight& entry) {
    return entry.stage != Stage::kRunning;
  });
  if (first == queue_.end() || first->stage == Stage::kLaunching) return;
  auto last = first;
  for (auto next = first; next != queue_.end() && next->handshake.done();) {
    const std::string mismatch = next->handshake.mismatch();
    if (!mismatch.empty()) fail(mismatch);
    const bool is_message = is_point_to_point(next->call.op);
    const bool goes_alone = !next->with_next;
    ++next;
    if (!goes_alone) continue;
    last = next;
    if (!is_message || next == queue_.end() || !is_point_to_point(next->call.op)) break;
    if (next->stream != first->stream) break;
  }
  if (first != last) launch(first, last);
}

void NcclCommunicator::launch(Queue::iterator first, Queue::iterator last) {
  cudaStream_t const stream = first->stream;
  const Launch target{gpu_, connection_.handle(), stream, rank(), size()};
  for (auto entry = first; entry != last; ++entry) {
    if (entry->enqueued != 0) {
      gpu_.check(gpu_.library->cudaEventRecord(entry->input, stream), "marking the beginning");
    } else {
      gpu_.check(gpu_.library->cudaStreamWaitEvent(stream, entry->input, 0), "awaiting the input");
    }
    entry->in_copy = issue_copies(target, entry->call);
  }
  issue_group(first, last);
  for (auto entry = first; entry != last; ++entry) {
    entry->stage = Stage::kLaunching;
    TrafficCounter& traffic = traffic_[static_cast<size_t>(entry->call.op)];
    ++traffic.calls;
    traffic.bytes_sent += nominal_bytes_sent(entry->call, rank(), size());
  }
  last_progress_ = Clock::now();
  advance_launching();
}

void NcclCommunicator::issue_group(Queue::iterator first, Queue::iterator last) {
  const Launch target{gpu_, connection_.handle(), first->stream, rank(), size()};
  gpu_.check(gpu_.library->ncclGroupStart(), "beginning a launch");
  try {
    for (auto entry = first; entry != last; ++entry) issue(target, entry->call, entry->in_copy);
  } catch (const Error&) {
    (void)gpu_.library->ncclGroupEnd();  // or this thread's next launch would join this one
    throw;
  }
  gpu_.check(gpu_.library->ncclGroupEnd(), "launching");
}

bool NcclCommunicator::test(uint64_t ticket) {
  const std::scoped_lock lock(state_.mutex);
  if (ticket > completed_) state_.progress();
  return ticket <= completed_;
}

bool NcclCommunicator::wait(uint64_t ticket, std::chrono::milliseconds time) {
  return wait_until([&] { return ticket <= completed_; }, time);
}

bool NcclCommunicator::launched(uint64_t ticket) const {
  return ticket <= completed_ || std::any_of(queue_.begin(), queue_.end(), [&](const auto& entry) {
           return entry.ticket == ticket && entry.stage == Stage::kRunning;
         });
}

template <typename Reached>
bool NcclCommunicator::wait_until(const Reached& reached, std::chrono::milliseconds time) {
  const auto begin = Clock::now();
  while (true) {
    const auto now = Clock::now();
    {
      const std::scoped_lock lock(state_.mutex);
      if (!reached()) state_.progress();
      if (reached()) return true;
      if (time.count() >= 0 && now - begin >= time) return false;
      if (now - begin >= kBetweenLooks && now - last_look_ >= kBetweenLooks) look_for_trouble();
      if (now - std::max(begin, last_progress_) >= timeout()) give_up();
    }
    pause(now - begin);
  }
}

// Calls that run may still wait for what was put on their stream before them.
NcclCommunicator::InFlight& NcclCommunicator::stalled() {
  const auto found = std::find_if(queue_.begin(), queue_.end(), [](const InFlight& entry) {
    return entry.stage != Stage::kRunning;
  });
  return found != queue_.end() ? *found : queue_.front();
}

void NcclCommunicator::look_for_trouble() {
  last_look_ = Clock::now();
  state_.options.host.look_for_lost_ranks();  // progress() sees the abort
  InFlight& oldest = stalled();
  guard(oldest.call, [&] {
    if (link_ == Link::kIntroducing) (void)introduction_.wait_for(std::chrono::milliseconds(0));
    if (oldest.stage == Stage::kMeeting) oldest.handshake.look_for_trouble();
  });
}

// The oldest call does not get on. On the host somebody is missing, and the host knows who.
void NcclCommunicator::give_up() {
  InFlight& oldest = stalled();
  guard(oldest.call, [&] {
    if (link_ == Link::kIntroducing) introduction_.wait();
    if (link_ == Link::kConnected && oldest.stage == Stage::kMeeting) oldest.handshake.wait();
  });
  const auto waited =
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - last_progress_);
  if (link_ == Link::kConnecting) {
    fail(
        fmt::format("rank {} waited {:.3f} s in {}: every rank came, but NCCL has not connected "
                    "them; look at the network, and at what NCCL_DEBUG=INFO prints",
                    world_rank(), seconds(waited), describe(oldest)));
  }
  if (oldest.stage == Stage::kMeeting) return;  // they came at the last moment
  const std::string who =
      size() == 1 || oldest.handshake.compared()
          ? "every rank called it"
          : fmt::format(
                "check_every is {}, so it was not compared, and who is missing is not known",
                state_.options.check_every);
  fail(fmt::format("rank {} waited {:.3f} s for the GPU to finish {}: {}", world_rank(),
                   seconds(waited), describe(oldest), who));
}

NcclCommunicator::Queue::iterator NcclCommunicator::oldest_enqueued() {
  return std::find_if(queue_.begin(), queue_.end(), [](const InFlight& entry) {
    return entry.enqueued != 0 && entry.stage == Stage::kRunning;
  });
}

void NcclCommunicator::stop_watching() {
  for (InFlight& entry : queue_) entry.enqueued = 0;
}

uint64_t NcclCommunicator::watch() noexcept {
  auto oldest = oldest_enqueued();
  if (oldest == queue_.end()) return 0;
  try {
    if (state_.options.host.aborted()) throw_aborted("had calls on a stream when");
    guard(oldest->call, [&] { advance_running(); });
  } catch (const std::exception&) {
    stop_watching();  // the world is aborted, and the next call of this rank says why
  }
  oldest = oldest_enqueued();
  return oldest == queue_.end() ? 0 : oldest->enqueued;
}

// A rank whose stream has not come to the call knows that it is the late one. The others give it a
// moment to say so.
void NcclCommunicator::watch_oldest(std::chrono::milliseconds waited) noexcept {
  const auto oldest = oldest_enqueued();
  if (oldest == queue_.end() || waited < timeout()) return;
  const bool came = gpu_.library->cudaEventQuery(oldest->input) == cudaSuccess;
  if (came && waited < timeout() + std::min(timeout() / 2, kMomentForTheLate)) return;
  try {
    if (came) {
      fail(fmt::format(
          "rank {} waited {:.3f} s for the GPU to finish {}: its stream came to it, and another "
          "rank's has not, or the link between them hangs",
          world_rank(), seconds(waited), describe(*oldest)));
    }
    fail(fmt::format(
        "rank {} is late: its GPU has not come to {} in {:.3f} s, because what was put on "
        "the stream before it has not ended",
        world_rank(), describe(*oldest), seconds(waited)));
  } catch (const std::exception&) {
    stop_watching();
  }
}

std::string NcclCommunicator::describe(const InFlight& entry) const {
  return tessera::describe(entry.call, entry.sequence);
}

// Before it has a place in the queue. A peer that does not exist has no count of messages.
std::string NcclCommunicator::describe_next(const CollectiveCall& call) {
  const bool known = !is_point_to_point(call.op) || (call.root >= 0 && call.root < size());
  return tessera::describe(call, known ? counter_of(call) + 1 : 1);
}

void NcclCommunicator::throw_aborted(const std::string& doing) {
  connection_.abort();
  throw CommError(fmt::format("group {}: rank {} {} the world was aborted: {}", name_, world_rank(),
                              doing, state_.options.host.abort_reason()));
}

void NcclCommunicator::fail(const std::string& text) {
  const std::string message = fmt::format("group {}: {}", name_, text);
  state_.options.host.abort(message);
  connection_.abort();
  throw CommError(message);
}

}  // namespace tessera::nccl
