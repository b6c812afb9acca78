#include "train/session.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <mutex>
#include <numbers>

#include "base/error.h"
#include "spec/run_file.h"
#include "train/batch.h"
#include "train/divergence.h"
#include "train/plan_report.h"
#include "train/run_directory.h"
#include "train/weights.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Largest resident memory of this process so far, or 0 where the system does not tell.
int64_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  int64_t kib = 0;
  while (status >> word) {
    if (word == "VmHWM:") status >> kib;
  }
  return kib * 1024;
}

class Session {
 public:
  explicit Session(const TrainOptions& options);
  TrainSummary run();

 private:
  void train_rank(int rank, Executor& executor);
  void report_step(int64_t step, const StepOutcome& outcome, const StepParams& params,
                   Clock::time_point step_start);
  void diverge(int rank, Executor& executor, const StepParams& params, const StepOutcome& outcome);
  [[nodiscard]] nlohmann::ordered_json measure();

  const TrainOptions& options_;
  CompiledRun compiled_;
  SampleSource samples_;
  TensorSource weights_;
  RunDirectory directory_;
  World world_;
  Clock::time_point start_;
  double warm_seconds_ = 0;  // when the first step was done: it pays for page faults
  std::atomic<int64_t> last_step_;
  int64_t steps_done_ = 0;
  double final_loss_ = 0;
  std::mutex mutex_;
  std::optional<std::pair<int, BadTensor>> bad_;
};

std::vector<Program> with_faults(std::vector<Program> programs, const Injection& injection) {
  inject_into_programs(injection, programs);
  return programs;
}

TensorSource weight_source(const CompiledRun& run) {
  const ModelSpec& model = run.step.spec.model;
  return model.hf.empty() ? initial_weights(model, run.step.spec.train.seed)
                          : hf_weights(model.hf, run.step.layout);
}

Session::Session(const TrainOptions& options)
    : options_(options),
      compiled_(compile_run(options.spec)),
      samples_(text_samples(compiled_.step.spec)),
      weights_(weight_source(compiled_)),
      directory_(options.spec.logging.run_dir),
      world_(compiled_.step, with_faults(compiled_.programs, options.inject)),
      last_step_(options.spec.train.steps) {}

void Session::report_step(int64_t step, const StepOutcome& outcome, const StepParams& params,
                          Clock::time_point step_start) {
  const RunSpec& spec = compiled_.step.spec;
  const double elapsed = seconds_since(start_);
  const auto tokens_per_step = static_cast<double>(spec.train.global_batch * spec.train.seq_len);
  if (step == 1) warm_seconds_ = elapsed;
  // The first step is left out of the rate once there are others.
  const double rate = step == 1 ? tokens_per_step / elapsed
                                : tokens_per_step * static_cast<double>(step - 1) /
                                      std::max(1e-9, elapsed - warm_seconds_);
  if (step % std::max<int64_t>(1, spec.logging.every) == 0 || step == spec.train.steps) {
    directory_.append_metrics({{"step", step},
                               {"time", unix_time()},
                               {"loss", outcome.loss},
                               {"lr", params.lr},
                               {"grad_norm", outcome.grad_norm},
                               {"tokens", static_cast<double>(step) * tokens_per_step},
                               {"tokens_per_s", rate},
                               {"step_ms", seconds_since(step_start) * 1e3}});
  }
  final_loss_ = outcome.loss;
  steps_done_ = step;
  if (options_.on_progress) {
    const double left = static_cast<double>(spec.train.steps - step) * tokens_per_step / rate;
    options_.on_progress(
        {step, spec.train.steps, outcome.loss, outcome.grad_norm, params.lr, rate, left});
  }
  if (options_.should_stop && options_.should_stop()) {
    last_step_.store(std::min(last_step_.load(), step + 1));
  }
}

// Every rank comes here in the same step, because all see the same sums.
void Session::diverge(int rank, Executor& executor, const StepParams& params,
                      const StepOutcome& outcome) {
  const Executor::Probe injected = injection_probe(options_.inject, executor, params.step);
  const std::optional<BadTensor> mine = find_first_nonfinite(executor, params, injected);
  {
    const std::scoped_lock lock(mutex_);
    const bool earlier = mine.has_value() && (!bad_.has_value() ||
                                              std::pair(mine->instruction, rank) <
                                                  std::pair(bad_->second.instruction, bad_->first));
    if (earlier) bad_ = {rank, *mine};
  }
  if (rank == 0) {
    directory_.append_metrics({{"event", "nan"},
                               {"step", params.step},
                               {"time", unix_time()},
                               {"loss", outcome.loss},
                               {"grad_norm", outcome.grad_norm}});
  }
}

void Session::train_rank(int rank, Executor& executor) {
  const RunSpec& spec = compiled_.step.spec;
  load_weights(executor, compiled_.step, inject_into_weights(options_.inject, rank, weights_));
  if (rank == 0) start_ = Clock::now();
  for (int64_t step = 1; step <= last_step_.load(); ++step) {
    const Clock::time_point step_start = Clock::now();
    fill_inputs(executor, spec, step, samples_);
    const StepParams params = step_params(spec, step);
    executor.set_probe(injection_probe(options_.inject, executor, step));
    const StepOutcome outcome = executor.run(params);
    if (!outcome.finite()) return diverge(rank, executor, params, outcome);
    if (rank == 0) report_step(step, outcome, params, step_start);
  }
}

nlohmann::ordered_json Session::measure() {
  nlohmann::ordered_json json = report_head(compiled_.step);
  for (int rank = 0; rank < world_.size(); ++rank) {
    const Executor& executor = world_.executor(rank);
    std::array<int64_t, kNumArenas> arenas{};
    for (const ArenaKind arena : kAllArenas) {
      arenas[static_cast<size_t>(arena)] = executor.arena_bytes(arena);
    }
    std::vector<Traffic> traffic = executor.traffic();
    for (Traffic& t : traffic) {
      const int64_t steps = std::max<int64_t>(1, steps_done_);
      TESSERA_CHECK(t.calls % steps == 0 && t.bytes_sent % steps == 0,
                    "{} {} of rank {} differed between steps", t.group, t.op, rank);
      t.calls /= steps;
      t.bytes_sent /= steps;
    }
    json["ranks"].push_back(rank_json(compiled_.step.mesh, rank, arenas, traffic,
                                      executor.executed_instructions(),
                                      executor.executed_digest()));
  }
  const RunSpec& spec = compiled_.step.spec;
  const auto tokens = static_cast<double>(spec.train.global_batch * spec.train.seq_len);
  const double elapsed = seconds_since(start_);
  json["steps"] = steps_done_;
  json["final_loss"] = final_loss_;
  json["seconds"] = elapsed;
  json["tokens_per_s"] = steps_done_ > 1 ? tokens * static_cast<double>(steps_done_ - 1) /
                                               std::max(1e-9, elapsed - warm_seconds_)
                                         : tokens / elapsed;
  json["peak_resident_bytes"] = peak_resident_bytes();
  return json;
}

TrainSummary Session::run() {
  TrainSummary summary;
  summary.plan = plan_json(compiled_);
  if (!options_.config_text.empty()) directory_.write_text("config.toml", options_.config_text);
  directory_.write_json("resolved.json", to_json(compiled_.step.spec));
  directory_.write_json("plan.json", summary.plan);
  world_.run([this](int rank, Executor& executor) { train_rank(rank, executor); });
  if (bad_.has_value()) {
    throw Error(
        fmt::format("numeric divergence at step {}: the first tensor that is not finite is {} "
                    "on rank {} ({}); the weights of step {} are unchanged, try a lower "
                    "optimizer.lr",
                    steps_done_ + 1, bad_->second.description, bad_->first,
                    compiled_.step.mesh.describe(bad_->first), steps_done_),
        ExitCode::kDiverged);
  }
  summary.measured = measure();
  summary.stopped = steps_done_ < options_.spec.train.steps;
  summary.final_loss = final_loss_;
  save_weights(directory_.file("weights.safetensors"), world_);
  directory_.write_json("summary.json", summary.measured);
  return summary;
}

}  // namespace

double learning_rate(const OptimizerSpec& optimizer, int64_t step, int64_t steps) {
  if (step <= optimizer.warmup) {
    return optimizer.lr * static_cast<double>(step) / static_cast<double>(optimizer.warmup);
  }
  const auto span = static_cast<double>(std::max<int64_t>(1, steps - optimizer.warmup));
  const double progress = std::min(1.0, static_cast<double>(step - 1 - optimizer.warmup) / span);
  return optimizer.min_lr +
         (optimizer.lr - optimizer.min_lr) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

StepParams step_params(const RunSpec& spec, int64_t step) {
  StepParams params;
  params.lr = learning_rate(spec.optimizer, step, spec.train.steps);
  params.step = step;
  params.beta1 = spec.optimizer.beta1;
  params.beta2 = spec.optimizer.beta2;
  params.eps = spec.optimizer.eps;
  params.weight_decay = spec.optimizer.weight_decay;
  params.clip = spec.optimizer.clip;
  return params;
}

TrainSummary run_training(const TrainOptions& options) { return Session(options).run(); }

}  // namespace tessera
