// Ranks that are processes of one host. All memory they share is one memfd: no name, nothing that a
// crash could leave behind. Whoever starts the ranks makes it; they inherit its descriptor (or get
// it over a socket) and attach.
//
//   ShmMemory memory = ShmMemory::create({.ranks = 4});      the parent
//   auto world = attach_shm_world({.fd = fd, .rank = 2});    each rank
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/call_watcher.h"
#include "comm/run_state.h"
#include "comm/world.h"

namespace tessera {

struct ShmMemoryOptions {
  int ranks = 1;
  // Address space set aside for what one rank allocates; pages are taken from the system as they
  // are allocated. 0: as much as the machine has memory.
  int64_t bytes_per_rank = 0;
};

enum class ShmRankState : uint32_t {
  kAbsent,    // never attached
  kAttached,  //
  kLeft,      // gave its world back
};

// How far a rank has come.
struct RankProgress {
  RunSection section = RunSection::kSetup;  // as it said last with report_run
  int64_t step = 0;
  uint32_t left = 0;          // a bit for every section that it has been in and left
  uint64_t beats = 0;         // how often it said so
  uint64_t calls = 0;         // collectives that it has begun
  uint64_t instructions = 0;  // of its Programs, that it has begun
  int waits_for = -1;         // a rank that it has waited for long enough to sleep; -1: none
};

// The calls that a thread of a rank is in: addresses in its memory, innermost first.
struct ShmThreadStack {
  pid_t tid = 0;
  std::vector<uint64_t> frames = {};
};

struct ShmRankStatus {
  ShmRankState state = ShmRankState::kAbsent;
  pid_t pid = 0;
  std::string last_call;  // "all_reduce(f32, 4096) #17 of group dp", or empty
  RankProgress progress;
  std::vector<std::string> work;  // by stream that is at an instruction: which (WorkNote)
};

// The shared memory as its maker sees it. Throws Error when the system refuses, with the reason.
class ShmMemory {
 public:
  static ShmMemory create(const ShmMemoryOptions& options);
  static ShmMemory open(int fd);  // what another process made
  ~ShmMemory();
  ShmMemory(ShmMemory&& other) noexcept;
  ShmMemory& operator=(ShmMemory&&) = delete;

  [[nodiscard]] int fd() const;
  [[nodiscard]] int ranks() const;
  [[nodiscard]] ShmRankStatus status(int rank) const;
  [[nodiscard]] RankProgress progress(int rank) const;
  // What the threads say that have been asked with kStackSignal (comm/shm/stack_answers.h) and have
  // answered by now.
  [[nodiscard]] std::vector<ShmThreadStack> stacks(int rank) const;

  // As CommWorld::abort, for all ranks; the first reason stays.
  void abort(const std::string& reason);
  [[nodiscard]] bool aborted() const;
  [[nodiscard]] std::string abort_reason() const;

  // The parent saw the process of `rank` end: peers that wait for it stop waiting, with this text
  // ("was killed by SIGKILL", "exited with code 3") after the rank's name, pid and last call.
  void report_death(int rank, const std::string& how);
  // The process of `rank` ended in order ("exited with code 0"): peers may go on without it; only
  // those that wait for it are told.
  void report_exit(int rank, const std::string& how);

  // Makes CommWorld::stop_requested() true on every rank; `signal` is the one that asked for it.
  void request_stop(int signal);

  [[nodiscard]] RunState run_state() const;  // as rank 0 reported it last

 private:
  struct State;
  explicit ShmMemory(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

struct ShmWorldOptions {
  int fd = -1;  // of the ShmMemory; a copy is kept
  int rank = 0;
  std::chrono::milliseconds timeout{60'000};    // longest wait for a peer inside one collective
  std::chrono::milliseconds slow_after{5'000};  // a wait this long is reported once
  // Its threads say where they are when they are asked to; one world of a process alone.
  bool answers_for_stacks = false;
  // Threads of each rank that compute while this one waits. More threads than cores on the host:
  // waits yield at once instead of spinning.
  int busy_threads = 1;
  std::function<void(const std::string&)> on_warning =
      nullptr;  // "rank 2 is slow: …"; null: dropped
};

// Throws Error when the rank is not in the world or was attached before.
std::unique_ptr<CommWorld> attach_shm_world(const ShmWorldOptions& options);

// For ranks of such a world: the signal of ShmMemory::request_stop (0: nobody asked), and what
// ShmMemory::status is to say of this rank, and run_state if it speaks for all that share the
// memory (usually rank 0). In another world they are 0 and nothing.
[[nodiscard]] int stop_signal_of(const CommWorld& world);
void report_run(CommWorld& world, const RunState& state, bool speaks_for_all);

// For ranks of such a world whose data goes another way: tells ShmMemory::status of their calls.
// Null in another world, which must outlive it.
std::unique_ptr<CallWatcher> watch_calls(CommWorld& world);

}  // namespace tessera
