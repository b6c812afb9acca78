// `tessera train`.
#pragma once

#include <string>

#include "cli/command.h"
#include "launch/environment.h"
#include "spec/run_file/run_source.h"
#include "train/host_flags.h"
#include "train/watch_flags.h"

namespace tessera {

struct TrainCommandOptions {
  RunSource source;
  bool dry_run = false;
  bool json = false;
  bool overwrite = false;        // the run directory may hold a run
  std::string resume;            // auto, a checkpoint or a folder of them; empty: none
  bool allow_unchecked = false;  // with resume: also a checkpoint whose checksums are missing
  int64_t restarts = 0;          // how often all ranks may be started again
  int64_t compare_every = 0;     // steps between comparisons of replicas; 0: none
  int64_t spares = 0;            // processes that wait to take the place of a lost rank
  std::string elastic;           // bounds of the number of replicas; empty: it stays
  double stopped_after_s = 5;    // a rank that does not run so long is named,
  double stopped_grace_s = 10;   // and killed after so long more
  double hung_after_s = 30;      // least time without progress until the culprit is killed
  bool force = false;            // start although memory or disk are too small
  bool threads = false;          // the same as backend = "local"
  std::string backend = "auto";  // auto | local | shm | mpi | nccl
  bool share_gpu = false;        // processes may share a GPU, for tests
  std::string log_dir;           // of what ranks print; empty: forwarded
  double grace_s = 1.5;          // from ^C to the end of ranks that do not end by themselves
  double comm_timeout_s = 0;     // overrides train.comm_timeout; 0: does not
  HostFlags hosts;
  WatchFlags watch;
  std::string inject;  // a fault to provoke, for tests
};
// The environment must outlive the command.
Command add_train(CLI::App& root, const Environment& environment);
int run_train(const TrainCommandOptions& options, const Environment& environment, Console& console);

}  // namespace tessera
