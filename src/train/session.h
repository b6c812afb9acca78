// Training from a run description to a run directory.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/dispatch.h"
#include "spec/run_spec.h"
#include "train/injection.h"

namespace tessera {

struct TrainProgress {
  int64_t step = 0;
  int64_t steps = 0;
  double loss = 0;
  double grad_norm = 0;
  double lr = 0;
  double tokens_per_s = 0;
  double eta_s = 0;
};

struct TrainOptions {
  RunSpec spec;             // resolved
  std::string config_text;  // the run file as given; kept in the run directory
  std::function<void(const TrainProgress&)> on_progress;  // after every step, on rank 0's thread
  std::function<bool()> should_stop;                      // asked after every step
  Injection inject;
};

struct TrainSummary {
  nlohmann::ordered_json plan;
  nlohmann::ordered_json measured;  // summary.json
  bool stopped = false;             // should_stop ended it early
  double final_loss = 0;
};

// Linear warm-up, then cosine from lr to min_lr. `step` counts from 1.
double learning_rate(const OptimizerSpec& optimizer, int64_t step, int64_t steps);
StepParams step_params(const RunSpec& spec, int64_t step);

// Throws Error with ExitCode::kDiverged, naming step, rank and tensor, when the loss or the
// gradient is not finite; the run directory keeps everything up to there.
TrainSummary run_training(const TrainOptions& options);

}  // namespace tessera
