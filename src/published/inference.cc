#include "published/inference.h"

#include "cost/step/cost_model.h"
#include "cost/step/to_double.h"

namespace tessera {
namespace {

// Formulas of sources differ by this much: which small products and masks they count.
constexpr double kSameArithmetic = 0.02;

double ratio(double a, double b) { return a > b ? a / b : b / a; }

double states_of_last_rank(const Workload& workload, const Strategy& strategy) {
  const Estimate estimate = CostModel(workload).estimate(strategy);
  double bytes = 0;
  for (const MemoryPart part :
       {MemoryPart::kParameters, MemoryPart::kGradients, MemoryPart::kOptimizer}) {
    bytes += to_double(estimate.stages.back().bytes[static_cast<size_t>(part)]);
  }
  return bytes;
}

double flops_per_token(const Workload& workload, int64_t mtp_layers) {
  Workload w = workload;
  w.model.mtp_layers = mtp_layers;
  return model_flops(w) / (to_double(w.global_batch) * to_double(w.seq_len));
}

}  // namespace

int64_t replicas_of_states(const Workload& workload, const Strategy& strategy, double bytes) {
  Workload w = workload;
  Strategy s = strategy;
  int64_t best = s.dp;
  double best_ratio = 0;
  for (; s.world() <= kMaxDevices; s.dp *= 2) {
    w.cluster.devices = s.world();
    w.global_batch = s.dp * s.micro_batch;
    const double off = ratio(states_of_last_rank(w, s), bytes);
    if (best_ratio != 0 && off >= best_ratio) break;  // states only shrink
    best = s.dp;
    best_ratio = off;
  }
  return best;
}

bool has_later_tokens(const Workload& workload, double reported) {
  const double without = flops_per_token(workload, 0), with = flops_per_token(workload, 1);
  return ratio(with, reported) < 1 + kSameArithmetic &&
         ratio(with, reported) < ratio(without, reported);
}

std::vector<int64_t> likely_stage_layers(const Workload& workload, const Strategy& strategy) {
  const int64_t layers = workload.model.layers;
  const int64_t stages = strategy.pp * strategy.virtual_stages;
  // Where the ends count as layers, they have one less each: see EvenStages.
  for (int64_t ends = 0; ends <= 2; ++ends) {
    if ((layers + ends) % stages == 0) return {};
  }
  const int64_t full = (layers + stages - 1) / stages;
  const int64_t rest = layers - full * (stages - 1);
  if (rest < 0) return {};
  Strategy filled = strategy;
  filled.stage_layers.assign(static_cast<size_t>(stages), full);
  filled.stage_layers.back() = rest;
  if (!why_impossible(workload, filled).empty()) return {};
  CostModel model(workload);
  return model.step_s(filled) < model.step_s(strategy) ? filled.stage_layers
                                                       : std::vector<int64_t>();
}

}  // namespace tessera
