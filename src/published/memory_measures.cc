#include "published/memory_measures.h"

#include <algorithm>
#include <utility>

#include "cost/step/layer_cost.h"
#include "cost/step/to_double.h"

namespace tessera {
namespace {

constexpr int64_t kShort = 2;  // bytes of 16 bits

}  // namespace

MemoryMeasures::MemoryMeasures(Workload workload, bool taken)
    : workload_(std::move(workload)), taken_(taken) {
  PrecisionChoice& p = workload_.precision;
  if (taken && p.parameter_bytes == kShort) p.gradient_bytes = kShort;
}

void MemoryMeasures::price_batch(int64_t global_batch) {
  workload_.global_batch = global_batch;
  model_.emplace(workload_);
}

bool MemoryMeasures::fits(const Strategy& strategy) {
  const DeviceSpec& device = workload_.cluster.device;
  const double room = device.memory_bytes.value - device.reserved_bytes.value;
  if (strategy.elementwise_again == ElementwiseAgain::kNone) {
    return to_double(model_->peak_bytes(strategy)) <= room;
  }
  const double share = cheap_share(workload_, strategy);
  const Estimate estimate = model_->estimate(strategy);
  return std::all_of(estimate.stages.begin(), estimate.stages.end(), [&](const StageMemory& stage) {
    const int64_t kept = stage.bytes[static_cast<size_t>(MemoryPart::kActivations)];
    return to_double(stage.total()) - share * to_double(kept) <= room;
  });
}

double cheap_share(const Workload& w, const Strategy& s) {
  const ModelShape& m = w.model;
  const bool experts = m.experts > 0;
  // Elements of a token, by how tp splits them.
  const double norms = 2 * to_double(m.hidden) / to_double(s.sequence_parallel ? s.tp : 1);
  int64_t split = experts ? m.moe_ffn * m.experts_per_token + m.shared_ffn : m.ffn;
  if (m.latent) split += 2 * m.query_width() + m.heads * (m.mla.nope_dim + m.mla.value_dim);
  const double tokens = to_double(s.micro_batch) * to_double(w.seq_len) / to_double(s.cp);
  const double written = tokens * (norms + to_double(split) / to_double(s.tp));
  const LayerCost layer = layer_cost(w, s, experts);
  return to_double(w.precision.activation_bytes) * written /
         to_double(layer.saved_bytes[static_cast<size_t>(Recompute::kNone)]);
}

}  // namespace tessera
