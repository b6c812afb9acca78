#include "train/report/utilization.h"

#include "compile/model/model_flops.h"

namespace tessera {

Utilization::Utilization(const RunSpec& spec, const CommWorld& world, const PeakRate& peak) {
  if (peak.flops_per_s <= 0) return;
  auto devices = static_cast<double>(spec.parallel.world());
  if (peak.of_thread) devices *= static_cast<double>(spec.train.threads);
  // Ranks that are threads share one GPU.
  if (!peak.of_thread && world.backend() == "local") devices = 1;
  flops_ = model_flops(spec).total() / (devices * peak.flops_per_s);
}

double Utilization::of_step(double seconds) const { return seconds > 0 ? flops_ / seconds : 0; }

}  // namespace tessera
