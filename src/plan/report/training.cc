#include "plan/report/training.h"

namespace tessera {

namespace {
constexpr double kSecondsPerDay = 86400;
}  // namespace

Training training_of(const Plan& plan) {
  const TrainSpec& train = plan.spec.train;
  const Cluster& cluster = plan.step->cluster;
  const double per_step =
      static_cast<double>(train.global_batch) * static_cast<double>(train.seq_len);
  Training result;
  result.steps = static_cast<double>(plan.tokens) / per_step;
  const double time = result.steps * plan.step->estimate.time.step_s;
  result.days = time / kSecondsPerDay;
  result.device_hours = time / 3600 * static_cast<double>(cluster.devices);
  result.usd = result.device_hours * cluster.usd_per_device_hour.value;
  return result;
}

std::optional<TrainingWithFailures> training_with_failures(const Plan& plan) {
  if (!plan.failures || plan.failures->never_ends()) return std::nullopt;
  Training with = training_of(plan);
  for (double* part : {&with.days, &with.device_hours, &with.usd}) {
    *part /= plan.failures->goodput;
  }
  return TrainingWithFailures{with, with.days * kSecondsPerDay / plan.failures->model.mtbf};
}

}  // namespace tessera
