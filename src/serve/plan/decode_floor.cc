#include "serve/plan/decode_floor.h"

#include <algorithm>

namespace tessera::serve {
namespace {

double peak_of(const DeviceSpec& device, DType dtype) {
  return device.peak(size_bytes(dtype) == 2 ? MathType::kF16 : MathType::kF32);
}

// What is read of the experts' weights.
int64_t experts_read(const StageEstimate& stage, const ModelSpec& model) {
  if (model.experts == 0) return 0;
  return stage.expert_bytes / model.experts * std::min(model.experts, model.experts_per_token);
}

}  // namespace

DecodeFloor decode_floor(const ServeEstimate& estimate, const DeviceSpec& device, int64_t sequences,
                         int64_t context) {
  const ModelSpec& model = estimate.spec.model;
  const int64_t seen = model.sliding_window > 0 ? std::min(context, model.sliding_window) : context;
  const DType dtype = estimate.spec.train.dtype;
  const double peak = peak_of(device, dtype);
  DecodeFloor floor{.sequences = sequences, .context = context};
  for (const StageEstimate& stage : estimate.stages) {
    const int64_t weights = stage.weight_bytes + experts_read(stage, model);
    const int64_t cached = sequences * seen * stage.page_bytes / estimate.shape.page_size;
    const int64_t flops = 2 * sequences * (weights / static_cast<int64_t>(size_bytes(dtype))) +
                          sequences * seen * stage.flops_per_pair;
    const double read_s = static_cast<double>(weights + cached) / device.memory_bandwidth.value;
    const double seconds = peak > 0 ? std::max(read_s, static_cast<double>(flops) / peak) : read_s;
    floor.bytes += stage.ranks * (weights + cached);
    floor.step_s += seconds;
    floor.slowest_stage_s = std::max(floor.slowest_stage_s, seconds);
  }
  return floor;
}

}  // namespace tessera::serve
