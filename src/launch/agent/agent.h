// Starts the ranks of a job as processes of this host, watches them to their end, and says in one
// message what went wrong.
//
// The agent makes the ranks' shared memory (comm/shm); they inherit its descriptor and are told who
// they are by environment variables (launch/environment.h). It never touches their data. Nothing
// outlives it: ranks are killed by the kernel when the agent dies, and the memory has no name.
//
// ^C, SIGTERM and the like (launch/stop_signals.h): the ranks are asked to stop
// (CommWorld::stop_requested), get time to end by themselves (at least `grace`, and enough for the
// step at hand: launch/stop_time.h), then their waits are aborted, then they are killed. A second
// ^C kills at once. A rank that exits with 128 + a signal was asked by that signal itself, or
// nobody reads its output (SIGPIPE): the job has been stopped by it, and the other ranks end
// likewise. A rank that is killed or exits with a code other than 0: its peers learn it
// (ShmMemory:: report_death), get `leave_time` to end with their own errors, and are killed after
// that. A rank that exits with 0 may do so while others go on.
//
// A rank that fails writes why with abort_as_rank (launch/rank_failure.h) and exits with its code
// without printing: the agent prints the first reason of the job, once.
//
// A rank that is lost (killed, crashed) may cost the job no more than time: with `restarts`, all
// ranks are started again, as the next generation, in new memory, once all of this one are gone.
// Never after a signal, nor where the rank found a mistake that it would find again (a code of the
// table below other than 1). The same step failing kPoisonFailures times (restart_ledger.h) ends
// the job.
//
// With `restarts`, ranks whose processes are there and do not go on are found too (rank_watch.h):
// one that is stopped or that all others wait for is named, killed, and so lost.
//
// With `spares`, so many processes wait beside the ranks (spares.h): each rank of a new generation
// whose predecessor was lost is one of them.
//
// With `resize`, the next generation may have fewer ranks where a lost one has no spare, and more
// later: the ranks are asked to stop by SIGUSR2, save, and start again in their new number. SIGUSR2
// to the agent then says that lost places can be filled again.
//
// Where ranks of other hosts belong to the job, an overseer judges (overseer.h): which ranks are
// stopped or hung, and when there is room for more, can only be said by whoever sees all.
//
// When the machine runs out of memory, the kernel takes the ranks before other processes, and the
// agent next (launch/oom_score.h).
//
//   exit code of the job
//   0          every rank exited with 0
//   1-9        a rank failed with that code (base/error.h; docs/cli.md)
//   64-78      the same, codes of sysexits.h
//   78         a step that failed again and again
//   1          a rank was killed by a signal, or exited with any other code
//   85         stopped by SIGTERM or SIGUSR1, with a checkpoint of the last step (stop_code.h)
//   128 + N    stopped by signal N: 129 SIGHUP, 130 SIGINT, 141 SIGPIPE, 143 SIGTERM
// Where several ranks failed it is the code of the one that gave the first reason.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/run_state.h"
#include "comm/shm/host_memory.h"
#include "launch/agent/overseer.h"
#include "launch/agent/rank_loss.h"
#include "launch/agent/rank_watch.h"
#include "launch/environment.h"

namespace tessera {

// How many ranks the next generation has.
struct Resize {
  // After a loss; `lost` are those that no spare takes the place of.
  std::function<int(int ranks, const std::vector<int>& lost)> shrink = nullptr;
  // While they run: how many there may be. `asked`: by SIGUSR2.
  std::function<int(int ranks, const RunState& run, bool asked)> grow = nullptr;
  // Before a generation of another size starts.
  std::function<void(int before, int ranks, int generation, const std::string& reason)> on_resize =
      nullptr;
};

struct AgentOptions {
  int ranks = 1;
  int threads_per_rank = 1;  // with ranks: whether every thread can have a core of its own
  bool pin_to_cores = true;  // then each rank gets its share of the allowed cores

  std::string executable = {};              // empty: this program
  std::vector<std::string> arguments = {};  // with argv[0]; empty: those of this process
  Environment environment = {};  // of the ranks; the agent adds its TESSERA_… variables

  int64_t bytes_per_rank = 0;  // of shared memory, as in ShmMemoryOptions
  // A file that the ranks of all generations, and spares, inherit: what one generation leaves there
  // the next one finds. -1: there is none.
  int kept_fd = -1;

  // Empty: rank 0 writes to `out_fd` and `err_fd` itself, and the lines of the others are written
  // there with "[rank 2] " before each. Else all that rank N writes goes to LOG_DIR/rank-N.log,
  // and what rank 0 writes is shown as well.
  std::string log_dir = {};
  int out_fd = 1;
  int err_fd = 2;

  // The ranks that are here, of a job that has ranks on other hosts too (launch/hosts).
  struct Part {
    int first_rank = 0;
    int ranks = 0;                    // 0: all are here
    int generation = 1;               // of the ranks of all hosts
    std::vector<int> listeners = {};  // a socket for each of them
    Overseer* overseer = nullptr;     // judges them in the agent's place
  };
  Part part = {};

  int restarts = 0;  // how often the ranks may be started again
  int spares = 0;    // processes that wait to take the place of a rank; only with restarts
  // A spare has become `rank` of a generation; or, with rank -1, has died.
  std::function<void(pid_t pid, int rank, int generation)> on_spare = nullptr;
  Resize resize = {};      // only with restarts
  WatchBounds watch = {};  // where there are restarts or an overseer
  // A rank was found to be stopped or hung, or goes on again.
  std::function<void(const RankTrouble& trouble, const RunState& run)> on_trouble = nullptr;
  // Before a generation (1, 2, ...) starts: what its ranks are told beside `environment`.
  std::function<void(int generation, Environment& environment)> prepare = nullptr;
  // After a generation has failed; `run` is what rank 0 reported last.
  std::function<void(const RankLoss& loss, const RunState& run)> on_loss = nullptr;
  // Before the next one starts; `left` restarts remain then.
  std::function<void(const RankLoss& loss, int generation, int left)> on_restart = nullptr;
  // After the last one, however it ended.
  std::function<void(const RunState& run)> on_end = nullptr;
  // What a step read, for the message of one that fails again and again. Null: it is not said.
  std::function<std::string(int64_t step)> describe_step = nullptr;

  std::chrono::milliseconds grace{1'500};       // at least, from a signal to the abort
  std::chrono::milliseconds leave_time{1'000};  // from the first failure to SIGKILL

  // Added to the message where somebody else killed a rank: why, as far as it can be told.
  // `meanwhile`: what the kernel ended for want of memory since the generation began. Null:
  // nothing.
  std::function<std::string(const std::optional<MemoryKills>& meanwhile)> if_killed = nullptr;

  // Gets the one message of a job that failed. Null: "tessera: …" is written to err_fd.
  std::function<void(const std::string&)> on_failure = nullptr;

  // What the ranks have reported (ShmMemory::report_run) at the first signal, and at the end of a
  // job that a signal stopped.
  std::function<void(const RunState&)> on_stop = nullptr;
  std::function<void(int signal, const RunState&)> on_stopped = nullptr;

  [[nodiscard]] int ranks_here() const { return part.ranks > 0 ? part.ranks : ranks; }
  [[nodiscard]] bool is_here(int rank) const {
    return rank >= part.first_rank && rank < part.first_rank + ranks_here();
  }
  void validate() const;
};

// Returns the exit code of the job when all ranks are gone. Throws Error where the job cannot be
// started (then nothing is left of it). Call it from the main thread, which must not end before
// (the kernel ties the ranks to it), and with no other thread that could take the signals.
int run_agent(const AgentOptions& options);

}  // namespace tessera
