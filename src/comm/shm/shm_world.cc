#include "comm/shm/shm_world.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "comm/shared/domain.h"
#include "comm/shared/endpoint.h"
#include "comm/shared/layout.h"
#include "comm/shm/host_memory.h"
#include "comm/shm/process_watch.h"
#include "comm/shm/segment.h"
#include "comm/shm/stack_answers.h"

namespace tessera {
namespace {

using shared::RankState;
using shared::WorldBlock;

constexpr int64_t kHugePage = int64_t{2} << 20;
// A peer that is stopped in the middle of moving data is not waited for longer than this after an
// abort; memory that is shared outlives whoever leaves.
constexpr std::chrono::milliseconds kLeavePatience{200};

int usable_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

// A file that grows past the limit of the process raises a signal; here it is an error.
class IgnoreFileSizeSignal {
 public:
  IgnoreFileSizeSignal() : before_(std::signal(SIGXFSZ, SIG_IGN)) {}
  ~IgnoreFileSizeSignal() { std::signal(SIGXFSZ, before_); }
  IgnoreFileSizeSignal(const IgnoreFileSizeSignal&) = delete;
  IgnoreFileSizeSignal& operator=(const IgnoreFileSizeSignal&) = delete;

 private:
  void (*before_)(int);
};

// The whole file, mapped on a huge-page boundary.
class Mapping {
 public:
  Mapping(int fd, int64_t size_bytes) : fd_(fd), size_bytes_(size_bytes) {
    reserved_ = static_cast<size_t>(size_bytes + kHugePage);
    void* place =
        mmap(nullptr, reserved_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) refuse();
    place_ = static_cast<std::byte*>(place);
    const auto address = reinterpret_cast<uintptr_t>(place);
    const uintptr_t aligned = (address + kHugePage - 1) / kHugePage * kHugePage;
    base_ = place_ + (aligned - address);
    void* mapped = mmap(base_, static_cast<size_t>(size_bytes), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, 0);
    if (mapped == MAP_FAILED) {
      const int error = errno;
      munmap(place_, reserved_);
      errno = error;
      refuse();
    }
  }
  ~Mapping() {
    munmap(place_, reserved_);
    close(fd_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] std::byte* base() const { return base_; }
  [[nodiscard]] WorldBlock& block() const { return *reinterpret_cast<WorldBlock*>(base_); }

 private:
  [[noreturn]] void refuse() const {
    const int error = errno;
    close(fd_);
    throw Error(
        fmt::format("cannot map {} bytes of address space for shared memory: {}; raise the "
                    "limit (ulimit -v), or run ranks as threads (--threads)",
                    size_bytes_, std::strerror(error)));
  }

  int fd_;
  int64_t size_bytes_;
  size_t reserved_ = 0;
  std::byte* place_ = nullptr;
  std::byte* base_ = nullptr;
};

int64_t file_bytes(int fd) {
  struct stat info {};
  const bool known = fstat(fd, &info) == 0;
  require(known, "descriptor {} holds no shared memory: {}", fd, std::strerror(errno));
  return info.st_size;
}

int copy_of(int fd) {
  const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  require(copy >= 0, "cannot use descriptor {} of the shared memory: {}", fd, std::strerror(errno));
  return copy;
}

std::unique_ptr<Mapping> open_mapping(int fd) {
  const int64_t size_bytes = file_bytes(fd);
  require(size_bytes >= static_cast<int64_t>(sizeof(WorldBlock)),
          "descriptor {} holds no shared memory of Tessera ({} bytes)", fd, size_bytes);
  uint64_t magic = 0;
  const bool read = pread(fd, &magic, sizeof(magic), offsetof(WorldBlock, magic)) ==
                    static_cast<ssize_t>(sizeof(magic));
  require(read && magic == shared::kMagic, "descriptor {} holds no shared memory of Tessera", fd);
  auto mapping = std::make_unique<Mapping>(copy_of(fd), size_bytes);
  const WorldBlock& block = mapping->block();
  require(block.total_bytes == size_bytes,
          "the shared memory in descriptor {} has {} bytes instead of {}", fd, size_bytes,
          block.total_bytes);
  require(block.version == shared::kVersion,
          "the shared memory has version {}, this program {}: start all ranks with one program",
          block.version, shared::kVersion);
  return mapping;
}

// What one rank needs for as long as it, or memory it allocated, lives.
struct Attachment {
  std::unique_ptr<Mapping> mapping;
  std::unique_ptr<ShmSegment> segment;
  std::unique_ptr<ProcessWatch> watch;
  std::unique_ptr<shared::Domain> domain;
  std::optional<StackAnswers> answers;
};

void claim_rank(WorldBlock& block, int rank) {
  require(rank >= 0 && rank < static_cast<int>(block.ranks),
          "rank {} of a world of {} ranks: ranks are 0 to {}", rank, block.ranks, block.ranks - 1);
  shared::RankBlock& mine = block.rank[rank];
  int32_t nobody = 0;
  require(mine.pid.compare_exchange_strong(nobody, getpid()),
          "rank {} is taken by process {}: every rank attaches once", rank, nobody);
  mine.start_ticks = process_start_ticks(getpid());
  mine.state.store(static_cast<uint32_t>(RankState::kAttached), std::memory_order_release);
}

// Notes calls where the shared communicators note theirs.
class ShmCallWatcher final : public CallWatcher {
 public:
  explicit ShmCallWatcher(shared::RankBlock& rank) : rank_(rank) {}
  void begins(const CollectiveCall& call, uint64_t sequence, const std::string& group) override {
    shared::note_call(rank_, shared::kMaxGroups + place_of(group), call, sequence);
  }
  void waits_for(int rank) override { rank_.waits_for.store(rank + 1, std::memory_order_relaxed); }

 private:
  // Behind the last one: a group without a name.
  int place_of(const std::string& group) {
    const auto known = std::find(groups_.begin(), groups_.end(), group);
    const auto place = static_cast<int>(known - groups_.begin());
    if (known != groups_.end() || place == shared::kOutsideGroups) return place;
    const size_t length = std::min(group.size(), shared::kNameBytes - 1);
    std::memcpy(rank_.outside_groups[place], group.data(), length);
    groups_.push_back(group);
    return place;
  }

  shared::RankBlock& rank_;
  std::vector<std::string> groups_;
};

}  // namespace

struct ShmMemory::State {
  std::unique_ptr<Mapping> mapping;
};

ShmMemory::ShmMemory(std::unique_ptr<State> state) : state_(std::move(state)) {}
ShmMemory::~ShmMemory() = default;
ShmMemory::ShmMemory(ShmMemory&& other) noexcept = default;

ShmMemory ShmMemory::create(const ShmMemoryOptions& options) {
  require(options.ranks > 0 && options.ranks <= shared::kMaxRanks,
          "{} ranks on one host: 1 to {} can share memory; use MPI for more", options.ranks,
          shared::kMaxRanks);
  const int64_t wanted = options.bytes_per_rank > 0 ? options.bytes_per_rank : total_memory_bytes();
  const int64_t per_rank = (wanted + kHugePage - 1) / kHugePage * kHugePage + kHugePage;
  const int64_t control = shared::control_bytes(options.ranks);
  const int64_t total = control + per_rank * options.ranks;
  const IgnoreFileSizeSignal ignore;
  const int fd = memfd_create("tessera", MFD_CLOEXEC);
  require(fd >= 0, "cannot make shared memory: {}", std::strerror(errno));
  if (ftruncate(fd, total) != 0) {
    const int error = errno;
    close(fd);
    throw Error(
        fmt::format("cannot set aside {} bytes of shared memory: {}; raise the limit "
                    "(ulimit -f), or run ranks as threads (--threads)",
                    total, std::strerror(error)));
  }
  auto state = std::make_unique<State>();
  state->mapping = std::make_unique<Mapping>(fd, total);
  WorldBlock& block = state->mapping->block();
  block.magic = shared::kMagic;
  block.version = shared::kVersion;
  block.ranks = static_cast<uint32_t>(options.ranks);
  block.cores = static_cast<uint32_t>(usable_cores());
  block.heap_begin = control;
  block.heap_bytes_per_rank = per_rank;
  block.total_bytes = total;
  return ShmMemory(std::move(state));
}

ShmMemory ShmMemory::open(int fd) {
  auto state = std::make_unique<State>();
  state->mapping = open_mapping(fd);
  return ShmMemory(std::move(state));
}

int ShmMemory::fd() const { return state_->mapping->fd(); }
int ShmMemory::ranks() const { return static_cast<int>(state_->mapping->block().ranks); }

ShmRankStatus ShmMemory::status(int rank) const {
  WorldBlock& block = state_->mapping->block();
  ShmRankStatus status;
  status.state = static_cast<ShmRankState>(block.rank[rank].state.load(std::memory_order_acquire));
  status.pid = block.rank[rank].pid.load();
  status.last_call = shared::last_call(block, rank);
  status.progress = progress(rank);
  for (const WorkNote& note : block.rank[rank].work) {
    if (std::string text = note.text(); !text.empty()) status.work.push_back(std::move(text));
  }
  return status;
}

RankProgress ShmMemory::progress(int rank) const {
  const shared::RankBlock& block = state_->mapping->block().rank[rank];
  uint64_t instructions = 0;
  for (const WorkNote& note : block.work) instructions += note.begun();
  return {.section = static_cast<RunSection>(block.section.load()),
          .step = block.step.load(),
          .left = block.left.load(),
          .beats = block.beats.load(),
          .calls = block.num_records.load(),
          .instructions = instructions,
          .waits_for = block.waits_for.load() - 1};
}

std::vector<ShmThreadStack> ShmMemory::stacks(int rank) const {
  std::vector<ShmThreadStack> stacks;
  for (const shared::ThreadStack& thread : state_->mapping->block().rank[rank].stacks.threads) {
    const pid_t tid = thread.tid.load(std::memory_order_acquire);
    if (tid == 0) continue;
    const auto depth = static_cast<size_t>(std::clamp(thread.depth, 0, shared::kStackFrames));
    stacks.push_back({tid, {thread.frames, thread.frames + depth}});
  }
  return stacks;
}

void ShmMemory::abort(const std::string& reason) {
  shared::raise_abort(state_->mapping->block(), reason);
}
bool ShmMemory::aborted() const { return state_->mapping->block().abort_flag.raised(); }
std::string ShmMemory::abort_reason() const {
  return shared::abort_reason(state_->mapping->block());
}

void ShmMemory::report_death(int rank, const std::string& how) {
  report_exit(rank, how);
  WorldBlock& block = state_->mapping->block();
  shared::raise_abort(block, death_text(block, rank, how));
}

void ShmMemory::report_exit(int rank, const std::string& how) {
  shared::RankBlock& dead = state_->mapping->block().rank[rank];
  if (dead.death_state.exchange(1) != 0) return;
  const size_t length = std::min(how.size(), shared::kDeathBytes - 1);
  std::memcpy(dead.death, how.data(), length);
  dead.death[length] = '\0';
  dead.death_state.store(2, std::memory_order_release);
}

void ShmMemory::request_stop(int signal) {
  state_->mapping->block().stop.store(static_cast<uint32_t>(signal));
}

RunState ShmMemory::run_state() const {
  const shared::RunStateBlock& run = state_->mapping->block().run;
  return {.steps_done = run.steps_done.load(),
          .longest_step_us = run.longest_step_us.load(),
          .weight_bytes = run.weight_bytes.load(),
          .saving = run.saving.load() != 0,
          .saving_us = run.saving_us.load(),
          .saved_step = run.saved_step.load(),
          .checkpoint_step = run.checkpoint_step.load(),
          .opened = run.opened.load() != 0,
          .section = static_cast<RunSection>(state_->mapping->block().rank[0].section.load()),
          .step = state_->mapping->block().rank[0].step.load()};
}

std::unique_ptr<CommWorld> attach_shm_world(const ShmWorldOptions& options) {
  const auto attachment = std::make_shared<Attachment>();
  attachment->mapping = open_mapping(options.fd);
  Mapping& mapping = *attachment->mapping;
  WorldBlock& block = mapping.block();
  claim_rank(block, options.rank);
  const int64_t offset = block.heap_begin + options.rank * block.heap_bytes_per_rank;
  attachment->segment = std::make_unique<ShmSegment>(mapping.fd(), mapping.base() + offset, offset,
                                                     block.heap_bytes_per_rank, options.rank);
  attachment->watch = std::make_unique<ProcessWatch>(block);
  if (options.answers_for_stacks) attachment->answers.emplace(block.rank[options.rank].stacks);

  shared::Domain::Options domain;
  domain.block = &block;
  domain.base = mapping.base();
  domain.heap = {mapping.base() + block.heap_begin,
                 static_cast<size_t>(block.total_bytes - block.heap_begin)};
  domain.liveness = attachment->watch.get();
  domain.patience.timeout = options.timeout;
  domain.patience.leaving = kLeavePatience;
  domain.patience.slow_after = options.slow_after;
  domain.crowded = block.ranks * static_cast<uint32_t>(options.busy_threads) > block.cores;
  domain.on_warning = options.on_warning;
  attachment->domain = std::make_unique<shared::Domain>(std::move(domain));

  shared::Endpoint::Options endpoint;
  endpoint.domain = attachment->domain.get();
  endpoint.rank = options.rank;
  endpoint.backend = "shm";
  endpoint.allocate = [attachment](const std::string& name, int64_t size_bytes) {
    if (size_bytes == 0) return HostArena(name, 0);
    std::byte* data = attachment->segment->allocate(name, size_bytes);
    return HostArena(name, data, size_bytes,
                     [attachment, data] { attachment->segment->release(data); });
  };
  shared::RankBlock& mine = block.rank[options.rank];
  endpoint.on_close = [&mine] {
    mine.state.store(static_cast<uint32_t>(RankState::kLeft), std::memory_order_release);
  };
  endpoint.keep = attachment;
  return std::make_unique<shared::Endpoint>(std::move(endpoint));
}

std::unique_ptr<CallWatcher> watch_calls(CommWorld& world) {
  const auto* endpoint = dynamic_cast<const shared::Endpoint*>(&world);
  if (endpoint == nullptr) return nullptr;
  return std::make_unique<ShmCallWatcher>(endpoint->domain().block().rank[world.rank()]);
}

int stop_signal_of(const CommWorld& world) {
  const auto* endpoint = dynamic_cast<const shared::Endpoint*>(&world);
  return endpoint == nullptr ? 0 : static_cast<int>(endpoint->domain().block().stop.load());
}

void report_run(CommWorld& world, const RunState& state, bool speaks_for_all) {
  const auto* endpoint = dynamic_cast<const shared::Endpoint*>(&world);
  if (endpoint == nullptr) return;
  shared::WorldBlock& block = endpoint->domain().block();
  shared::RankBlock& mine = block.rank[world.rank()];
  const uint32_t before = mine.section.exchange(static_cast<uint32_t>(state.section));
  const bool other_step = mine.step.exchange(state.step) != state.step;
  if (other_step || before != static_cast<uint32_t>(state.section)) {
    mine.left.fetch_or(1U << before);
  }
  mine.beats.fetch_add(1);
  if (!speaks_for_all) return;
  shared::RunStateBlock& run = block.run;
  run.steps_done.store(state.steps_done);
  run.longest_step_us.store(state.longest_step_us);
  run.weight_bytes.store(state.weight_bytes);
  run.saving.store(state.saving ? 1 : 0);
  run.saving_us.store(state.saving_us);
  run.saved_step.store(state.saved_step);
  run.checkpoint_step.store(state.checkpoint_step);
  run.opened.store(state.opened ? 1 : 0);
}

}  // namespace tessera
