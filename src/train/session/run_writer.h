// What rank 0 writes while a run trains: its directory with the description of the run, the lines
// of metrics.jsonl, and events for TensorBoard.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>

#include "train/directory/run_claim.h"
#include "train/directory/run_directory.h"
#include "train/report/event_log.h"
#include "train/save/resume.h"
#include "train/session/job.h"
#include "train/session/session.h"

namespace tessera {

// A disk that fills or a directory that vanishes costs a run its metrics, never its steps: notes
// say so, once each.
class RunWriter {
 public:
  // Claims the directory unless the caller has (TrainOptions::run_dir_claimed), moves aside what
  // was there, and writes the description. Both arguments must outlive it. `memory_step`: of the
  // snapshot in memory that the run may go on from; 0: there is none.
  RunWriter(const TrainOptions& options, const TrainJob& job, int64_t memory_step);

  // Where the run goes on, if it does, and whose its saves are.
  [[nodiscard]] const std::optional<ResumePoint>& resumed() const { return resumed_; }
  // The snapshot in memory is newer than that.
  [[nodiscard]] bool resumes_from_memory() const { return from_memory_; }
  // A rank could not read that checkpoint: the run goes on from the one before, or from the
  // snapshot in memory where that is newer. Throws `why` where that checkpoint alone was asked for,
  // and Error as newest_good() does where there is no other.
  void pass_over(int rank, const Error& why);

  [[nodiscard]] const RunDirectory& directory() const { return *directory_; }

  // A line of metrics.jsonl.
  void log(const nlohmann::ordered_json& line);
  // The scalars of such a line for TensorBoard, where it is asked for.
  void append_event(const nlohmann::ordered_json& line);
  // Somebody may have removed the directory: what is still to come needs a place. Returns why
  // nothing may be written there; empty: it may.
  std::string keep_directory();
  // What other programs need to read the weights; without it they are still the weights.
  void describe_weights();
  void note(const std::string& text) const;
  // A line of events.jsonl, with the time; a disk that does not take it costs the line.
  void event(nlohmann::ordered_json line) const;

  void count_step(int64_t step) { steps_done_ = step; }

 private:
  void open_directory();
  void find_point(const std::string& path);
  void write_description();
  void write_resolved_run();

  const TrainOptions& options_;
  const TrainJob& job_;
  const RunSpec& spec_;
  std::optional<ClaimedDirectory> claim_;  // unless the caller has one
  std::optional<ResumePoint> resumed_;
  int64_t memory_step_;
  bool from_memory_ = false;
  ResumeRules rules_;
  std::set<std::string> said_;  // of what cannot be used
  std::optional<RunDirectory> directory_;
  std::optional<EventLog> events_;  // where it is asked for
  int64_t steps_done_ = 0;
  bool said_that_metrics_fail_ = false;
  bool said_that_directory_fails_ = false;
};

}  // namespace tessera
