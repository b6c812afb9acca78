// The line of metrics.jsonl that a step gets, and what callers are told of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/report/phase_report.h"
#include "train/report/router_load.h"
#include "train/report/utilization.h"
#include "train/session/evaluation.h"
#include "train/session/run_writer.h"

namespace tessera {

struct ReportedStep {
  int64_t step = 0;
  StepOutcome outcome;
  StepParams params;
  double seconds = 0;                         // of the step
  double elapsed = 0;                         // since the first began, without evaluations
  double data_seconds = 0;                    // of filling inputs, since the first
  std::string skipped;                        // why it changed nothing; empty: it did
  std::optional<int64_t> skipped_steps = {};  // so far, where steps may be skipped
  bool evaluated = false;                     // it ended with an evaluation
  std::vector<SetLoss> evaluation;            // the last one; empty: there was none
  RouterLoad load;
  std::string samples_hash;  // of the whole run so far; empty: not known
};

class StepReporter {
 public:
  // All must outlive it.
  StepReporter(const TrainOptions& options, const RunSpec& spec, const CommWorld& world,
               const Executor& executor)
      : options_(options),
        spec_(spec),
        executor_(executor),
        utilization_(spec, world, options.peak) {}

  // The arenas of every rank, which stay so for the whole run.
  void set_memory(std::vector<int64_t> rank_bytes) { rank_bytes_ = std::move(rank_bytes); }

  // The first step of this process; 1 unless the run goes on.
  void begin_at(int64_t step) {
    first_ = step;
    reported_step_ = step - 1;
  }

  // Rank 0: after every step.
  void report(const ReportedStep& step, RunWriter& output);
  // The first step pays for page faults: what follows counts from here. The clocks of
  // communication were reset.
  void forget_first_step(double data_seconds);

  // When the first step was done, on the clock of ReportedStep::elapsed.
  [[nodiscard]] double warm_seconds() const { return warm_seconds_; }

  // Whether a step gets a line, the same on every rank. `remarkable`: it changed nothing, or ended
  // with an evaluation.
  [[nodiscard]] bool line_is_due(int64_t step, bool remarkable) const;

 private:
  [[nodiscard]] double tokens_per_second(const ReportedStep& step) const;
  [[nodiscard]] nlohmann::ordered_json line_of(const ReportedStep& step, double rate, double mfu);
  void add_times(const ReportedStep& step, nlohmann::ordered_json& line);
  [[nodiscard]] PhaseTimes phases(double data_seconds) const;

  const TrainOptions& options_;
  const RunSpec& spec_;
  const Executor& executor_;
  Utilization utilization_;
  std::vector<int64_t> rank_bytes_;
  int64_t first_ = 1;
  double warm_seconds_ = 0;
  // The clocks at the last line, and the step of that line.
  std::vector<CommTime> reported_times_;
  PhaseTimes reported_phases_;
  int64_t reported_step_ = 0;
};

}  // namespace tessera
