#include "train/session/step_reporter.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "train/report/comm_report.h"
#include "train/session_clock.h"

namespace tessera {
namespace {

double tokens_per_step(const RunSpec& spec) {
  return static_cast<double>(spec.train.global_batch * spec.train.seq_len);
}

}  // namespace

bool StepReporter::line_is_due(int64_t step, bool remarkable) const {
  const bool due = step % std::max<int64_t>(1, spec_.logging.every) == 0;
  return due || step == spec_.train.steps || remarkable;
}

// The first step is left out of the rate once there are others.
double StepReporter::tokens_per_second(const ReportedStep& step) const {
  const double tokens = tokens_per_step(spec_);
  if (step.step == first_) return tokens / step.elapsed;
  return tokens * static_cast<double>(step.step - first_) /
         std::max(1e-9, step.elapsed - warm_seconds_);
}

PhaseTimes StepReporter::phases(double data_seconds) const {
  return {executor_.pass_seconds(), exposed_seconds(executor_.comm_times()), data_seconds};
}

void StepReporter::add_times(const ReportedStep& step, nlohmann::ordered_json& line) {
  const int64_t steps = step.step - reported_step_;
  std::vector<CommTime> times = executor_.comm_times();
  if (!times.empty()) line["exposed_ms"] = exposed_ms(reported_times_, times, steps);
  line["memory_bytes"] = memory_of_ranks(rank_bytes_);
  const PhaseTimes now = phases(step.data_seconds);
  // The host of a GPU does not see when its kernels run.
  if (spec_.train.device != TrainDevice::kCuda) {
    line["phase_ms"] = phase_ms(reported_phases_, now, steps);
  }
  reported_phases_ = now;
  reported_times_ = std::move(times);
  reported_step_ = step.step;
}

nlohmann::ordered_json StepReporter::line_of(const ReportedStep& step, double rate, double mfu) {
  nlohmann::ordered_json line = {
      {"step", step.step},
      {"time", unix_seconds()},
      {"loss", step.outcome.loss},
      {"lr", step.params.lr},
      {"grad_norm", step.outcome.grad_norm},
      {"tokens", step.step * spec_.train.global_batch * spec_.train.seq_len},
      {"tokens_per_s", rate},
      {"step_ms", step.seconds * 1e3}};
  if (!step.samples_hash.empty()) line["samples_hash"] = step.samples_hash;
  if (step.evaluated) add_losses(step.evaluation, line);
  if (mfu > 0) line["mfu"] = mfu;
  if (spec_.train.dtype == DType::kF16) line["loss_scale"] = step.params.loss_scale;
  if (step.skipped_steps.has_value()) line["skipped_steps"] = *step.skipped_steps;
  if (!step.skipped.empty()) line["skipped"] = step.skipped;
  add_times(step, line);
  if (!step.load.empty()) line["experts"] = to_json(step.load);
  return line;
}

void StepReporter::report(const ReportedStep& step, RunWriter& output) {
  if (step.step == first_) warm_seconds_ = step.elapsed;
  const double rate = tokens_per_second(step);
  const double mfu = utilization_.of_step(step.seconds);
  if (line_is_due(step.step, !step.skipped.empty() || step.evaluated)) {
    const nlohmann::ordered_json line = line_of(step, rate, mfu);
    output.log(line);
    output.append_event(line);
  }
  if (!options_.on_progress) return;
  const double left =
      static_cast<double>(spec_.train.steps - step.step) * tokens_per_step(spec_) / rate;
  options_.on_progress({step.step, spec_.train.steps, step.outcome.loss, step.outcome.grad_norm,
                        step.params.lr, rate, left, mfu, !step.skipped.empty(),
                        step.evaluation.empty() ? 0 : loss_of_all(step.evaluation)});
}

void StepReporter::forget_first_step(double data_seconds) {
  reported_times_.clear();
  reported_phases_ = phases(data_seconds);
  reported_step_ = first_;
}

}  // namespace tessera
