// What `train` and `train --dry-run` look at before anything starts, so that nothing is found out
// after an hour that was known before: the text, the vocabulary, the weights, the device, the
// folders, the disk, the memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/terminal.h"
#include "comm/shm/host_memory.h"
#include "launch/join/rank_mode.h"
#include "plan/plan.h"
#include "spec/run_spec.h"
#include "train/preflight/local_memory.h"
#include "train/session/host_room.h"
#include "train/train_command.h"

namespace tessera {

class BeforeStart {
 public:
  // `spec` must have gone through resolve(), with its device chosen.
  BeforeStart(const TrainCommandOptions& options, const RunSpec& spec, Console& console)
      : options_(options), spec_(spec), console_(console) {}

  // All that is read, and the folders that are written. Throws ConfigError, or Error for what
  // cannot be read. Ranks that somebody started choose their folder once they have met, so
  // that all hear of a refusal.
  void check_files(bool chooses_folder);
  // That there is a checkpoint of this run where it is to go on from, after check_files(). Throws
  // what a rank would that cannot go on.
  void check_resume() const;
  // Room for what rank 0 writes, after check_files(). Throws Error with ExitCode::kUsage; with
  // --force it is a warning.
  void check_disk() const;
  void check_disk_of(const std::string& run_dir) const;
  // GPUs for `ranks` processes of this host; for threads, one.
  void check_device(RankMode mode, int64_t ranks) const;
  // Where all ranks are to be on this host. Throws Error with ExitCode::kDoesNotFit, saying what
  // `plan --check` says; with --force it is a warning.
  void check_memory(RankMode mode);

  // For ranks that somebody else started, which add up their hosts themselves; null with --force.
  [[nodiscard]] HostRefusal host_refusal() const;
  // Why a rank was killed by somebody else; check_memory() comes before it.
  [[nodiscard]] std::string if_killed(const std::optional<MemoryKills>& meanwhile) const;

 private:
  void refuse_or_warn(const std::string& text, ExitCode code) const;
  [[nodiscard]] std::string misfit_of(const Plan& plan) const;

  const TrainCommandOptions& options_;
  const RunSpec& spec_;
  Console& console_;
  std::string run_dir_;  // where rank 0 would write
  int64_t text_bytes_ = 0;
  LocalMemory memory_;
};

}  // namespace tessera
