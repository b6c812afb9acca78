// One rank of a run: everything that it has from its first weight to its last file.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/store/file_ops.h"
#include "runtime/executor.h"
#include "runtime/rank.h"
#include "train/report/step_trace.h"
#include "train/report/straggler.h"
#include "train/samples/sample_ledger.h"
#include "train/save/checkpoints.h"
#include "train/save/snapshots.h"
#include "train/session/evaluation.h"
#include "train/session/failpoint.h"
#include "train/session/job.h"
#include "train/session/loss_scale.h"
#include "train/session/run_writer.h"
#include "train/session/session.h"
#include "train/session/spike_guard.h"
#include "train/session/step_params.h"
#include "train/session/step_reporter.h"
#include "train/session_clock.h"

namespace tessera {

// Its methods are in rank_session.cc (the steps), session_start.cc (where it begins),
// session_saves.cc (what it keeps) and session_faults.cc (what may go wrong in a step).
class RankSession {
 public:
  RankSession(const TrainOptions& options, const TrainJob& job, CommWorld& world,
              Communicator& control);
  TrainSummary run();

 private:
  void train();
  [[nodiscard]] Executor::Probe probe_of(int64_t step);
  void begin_weights();
  [[nodiscard]] std::string place_to_go_on_from();
  [[nodiscard]] bool resume(const std::string& place);
  void load_from(const FileOps& files, const CheckpointFolder& checkpoint);
  void begin_snapshots();
  void resume_from_memory();
  void tell_where_from(const std::string& place) const;
  void go_on(int64_t step, const nlohmann::json& state, const SaveId& last_save,
             const std::string& place);
  void begin_checkpoints();
  [[nodiscard]] std::shared_ptr<FileOps> open_files(const std::string& dir, bool make);
  [[nodiscard]] nlohmann::json state_of(int64_t step) const;
  void begin_save(int64_t step);
  void begin_snapshot(int64_t step);
  void tell_save(const SaveNews& news);
  void save_if_due(int64_t step);
  void keep_saving();
  void end_checkpoints();
  void gather_memory();
  void fill_next(int64_t step);
  [[nodiscard]] StepOutcome run_step(int64_t step, StepParams& params);
  void evaluate(int64_t step);
  void settle(const StepParams& params, const StepOutcome& outcome);
  [[noreturn]] void diverge(const StepParams& params, const StepOutcome& outcome);
  [[nodiscard]] std::string save_before_divergence();
  void count_step(int64_t step, double step_seconds);
  void report_step(const StepParams& params, const StepOutcome& outcome, double step_seconds);
  void tell_notes() const;
  void forget_first_step();
  void look_for_slow_rank();
  void compare_replicas(int64_t step);
  void flip_a_bit();
  void keep_trace(int64_t step);
  [[nodiscard]] bool ends_early();
  [[nodiscard]] int wants_to_stop() const;
  [[nodiscard]] bool time_is_up();
  [[nodiscard]] std::string save();
  [[nodiscard]] nlohmann::ordered_json measure();
  void finish(const TrainSummary& summary);
  void tell_state() const;
  void enter(RunSection section, int64_t step);
  [[nodiscard]] const std::string& folder() const;

  const TrainOptions& options_;
  const TrainJob& job_;
  const RunSpec& spec_;
  Failpoints failpoints_;
  CommWorld& world_;
  Communicator& control_;
  std::optional<RunWriter> output_;  // rank 0 only
  int64_t gpu_free_before_;
  Rank rank_;
  Executor executor_;
  LossScaler scaler_;
  SpikeGuard guard_;
  Evaluation evaluation_;
  SampleLedger samples_;
  StepReporter report_;
  StepTrace trace_;
  std::string skipped_;  // why the last step changed nothing; empty: it did
  HostTimer timer_;      // from the first step on
  int64_t steps_done_ = 0;
  int stop_signal_ = 0;
  bool out_of_time_ = false;
  RunState state_;
  std::optional<Snapshots> snapshots_;      // where memory outlives this process
  std::optional<FoundSnapshot> found_;      // that all ranks have
  std::optional<Checkpoints> checkpoints_;  // where the run file asks for them
  HostTimer saving_timer_;                  // since the run began to wait for a save
  std::string samples_hash_;                // of all ranks, when it was last asked for
  int64_t before_ = 0;  // steps that the checkpoint has, which the run goes on from
  SaveId save_id_;      // rank 0 only
  double final_loss_ = 0;
  double data_seconds_ = 0;  // of filling inputs
  RouterLoad load_;          // of the last step
  ComputeClock compute_;
  std::vector<double> step_compute_ms_;  // since ranks were last compared
  int64_t compared_step_ = 0;
  int slow_rank_ = -1;  // that was said to be
};

}  // namespace tessera
