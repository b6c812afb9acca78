// What `train --restarts` adds to a run: its processes know that they go on, and events.jsonl tells
// of every rank that was lost.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "launch/agent/rank_loss.h"
#include "launch/environment.h"
#include "launch/join/rank_mode.h"
#include "launch/unique_fd.h"
#include "train/session/session.h"
#include "train/session_clock.h"
#include "train/train_command.h"

namespace tessera {

// Throws ConfigError where there is nobody who could start the ranks again.
void require_restartable(const TrainCommandOptions& options, const RunSpec& spec, RankMode mode,
                         const LaunchContext& context);

// A file in memory without a name, for what the ranks leave to those that are started after them.
UniqueFd file_for_snapshots();
// For ranks in another number, to which what lies there says nothing. No rank may be there.
void forget_snapshots(const UniqueFd& file);

// The agent's side.
class RestartJournal {
 public:
  explicit RestartJournal(std::string run_dir) : run_dir_(std::move(run_dir)) {}

  // What the ranks of the next generation are told.
  void prepare(Environment& environment) const;
  void trouble(const RankTrouble& trouble, const RunState& run);
  void lost(const RankLoss& loss, const RunState& run);
  void spare(pid_t pid, int rank, int generation);
  void restarted(const RankLoss& loss, int generation, int left);
  void resized(int before, int ranks, int generation, const std::string& reason);
  // What rank 0 has reported last.
  void ended(const RunState& run);

 private:
  void write();

  std::string run_dir_;
  HostTimer since_start_;
  // Until a rank has opened the directory, what lies there may be another run's.
  bool opened_ = false;
  // Not yet written.
  std::vector<std::string> lines_;
  std::vector<std::pair<std::string, std::string>> stacks_;  // the file, and what it is to hold
};

// The rank's side.
void hear_restarts(const Environment& environment, TrainOptions& train);

// "the spare with pid 4712 is rank 2 now", or that it died.
std::string spare_text(pid_t pid, int rank);

// "rank 2 (pid 4711) is stopped, for 5.1 s, in step 7"
std::string trouble_text(const RankTrouble& trouble);

// "rank 2 (pid 4711) was killed by SIGKILL, ...: all ranks start again (generation 2), 2 restarts
// are left"
std::string restart_text(const RankLoss& loss, int generation, int left);

// "goes on with 3 ranks instead of 4 (generation 2)"
std::string resize_text(int before, int ranks, int generation);

}  // namespace tessera
