// Training from a run description to a run directory: one rank of it, or all ranks as threads.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "comm/run_state.h"
#include "comm/world.h"
#include "spec/run_spec.h"
#include "train/report/step_trace.h"
#include "train/report/utilization.h"
#include "train/session/failpoint.h"
#include "train/session/host_room.h"
#include "train/session/injection.h"

namespace tessera {

struct TrainProgress {
  int64_t step = 0;
  int64_t steps = 0;
  double loss = 0;
  double grad_norm = 0;
  double lr = 0;
  double tokens_per_s = 0;
  double eta_s = 0;
  double mfu = 0;         // of this step; 0: the peak is not known
  bool skipped = false;   // the step changed nothing (train.skip_spikes)
  double valid_loss = 0;  // of the last evaluation; 0: there was none
};

struct TrainOptions {
  RunSpec spec;             // resolved
  std::string config_text;  // the run file as given; kept in the run directory
  std::function<void(const TrainProgress&)> on_progress;  // after every step, on rank 0's thread
  // Asked after every step, on every rank's thread: a signal that asks the run to end, or 0.
  std::function<int()> should_stop;
  // On every rank's thread, whenever something in it changed.
  std::function<void(const RunState&)> on_state;
  std::function<void(const std::string&)> on_note;  // what a user should know, as on_progress
  std::string rescue_dir;  // for weights that the run directory does not take; empty: none
  Injection inject;
  std::vector<Fault> faults;  // to provoke, in ranks of generation `generation`
  int kept_fd = -1;           // a file in memory that outlives the ranks, for snapshots; -1: none
  int generation = 1;         // how often the ranks of this run have been started
  int ranks_on_host = 0;      // that share this machine's cores and memory; 0: all
  int gpu = 0;                // of this process, where train.device is "cuda"
  PeakRate peak;              // for MFU
  // Replicas of the state are compared after every so many steps, and before every save and the
  // end; 0: never.
  int64_t compare_every = 0;
  double max_seconds = 0;  // the run ends after the step that reaches it; 0: there is no limit
  StepRange trace;         // steps whose instructions are timed; empty: none
  // Where the run goes on: "auto", a checkpoint or a folder of them (resume.h); empty: it begins.
  std::string resume;
  bool allow_unchecked = false;  // also from one whose checksums are missing
  // An earlier process of this very run has opened the directory: it goes on from the newest good
  // checkpoint there, else from where that process began.
  bool goes_on = false;
  bool overwrite = false;  // a run that is in the directory and does not go on is moved aside
  // The caller has claimed spec.logging.run_dir (run_claim.h); else rank 0 does when it starts.
  bool run_dir_claimed = false;
  // Asked by train_rank before memory is taken where the ranks of a host need more than it has.
  // Null: nobody looks.
  HostRefusal host_refusal;
};

struct TrainSummary {
  nlohmann::ordered_json plan;      // rank 0 only
  nlohmann::ordered_json measured;  // summary.json; rank 0 only
  std::string run_dir;              // rank 0 only
  bool stopped = false;             // ended early, because somebody asked
  int stop_signal = 0;              // by which
  double final_loss = 0;
  std::shared_ptr<const TracedSteps> trace;  // rank 0 only; null: none was asked for
};

// Trains `rank` of `world`; every rank calls it with the same options. Rank 0 writes the run
// directory. Stops after the step at hand, on all ranks, when should_stop() of any rank or
// world.stop_requested() says so. Throws Error with ExitCode::kDiverged, naming step, rank and
// tensor, when the loss or the gradient is not finite; the run directory keeps everything up to
// there, with the weights before that step. A run directory that vanishes is made again, and
// metrics that cannot be written are left out, with a note. A failure aborts the world: other ranks
// leave their waits with CommError.
TrainSummary train_rank(const TrainOptions& options, CommWorld& world);
// The same where the tensors travel through another world of the same ranks: that of their GPUs.
TrainSummary train_rank(const TrainOptions& options, CommWorld& host, CommWorld& gpus);

// The same with all ranks as threads of this process. Throws what the rank that failed first threw.
TrainSummary run_training(const TrainOptions& options);

// For the world that the ranks meet in: longest wait for a peer inside one collective
// (train.comm_timeout), and the threads of a rank, the one that runs its collectives included.
std::chrono::milliseconds comm_timeout(const RunSpec& spec);
int threads_of_rank(const RunSpec& spec);

}  // namespace tessera
