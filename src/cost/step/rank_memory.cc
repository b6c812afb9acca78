#include "cost/step/rank_memory.h"

#include <algorithm>
#include <utility>

#include "base/rounding.h"

namespace tessera {
namespace {

int64_t workspace_bytes(const RankLayout& l) {
  return static_cast<int64_t>(l.w.engine.workspace_bytes);
}

int64_t gathered_bytes(const RankLayout& l, const RankLayout::Parameters& held,
                       const RankLayers& layers) {
  const PrecisionChoice& p = l.w.precision;
  if (!l.s.release_after_forward) return (held.dense + held.experts) * p.parameter_bytes;
  const LayerCost& layer = layers.experts > 0 ? l.split.experts : l.split.dense;
  const int64_t unit = std::max(layer.dense_parameters + layer.expert_parameters,
                                l.w.model.table_parameters() / l.s.tp);
  // Weights of the unit in use and of those fetched ahead, and the gradient of one.
  return unit *
         (static_cast<int64_t>(l.w.engine.gathered_units) * p.parameter_bytes + p.gradient_bytes);
}

// From forward to backward.
int64_t kept_bytes(const RankLayout& l, const RankLayers& layers, int64_t rank) {
  const auto kind = static_cast<size_t>(l.s.recompute);
  const int64_t v = l.s.virtual_stages;
  const int64_t live = live_micro_batches(l.s, rank, l.micro_batches);
  const int64_t all = layers.dense * l.split.dense.saved_bytes[kind] +
                      layers.experts * l.split.experts.saved_bytes[kind];
  int64_t kept = all / v * live;
  if (l.s.recompute == Recompute::kFull && layers.again < layers.total()) {
    const int64_t whole = layers.dense * l.split.dense.saved_bytes[0] +
                          layers.experts * l.split.experts.saved_bytes[0];
    const int64_t again = layers.again, total = layers.total();
    kept = (all * again + whole * (total - again)) / total / v * live;
  }
  const int64_t live_ends = ceil_div(live, v);
  if (l.has_embedding(rank)) kept += live_ends * l.split.embedding.saved_bytes[0];
  if (l.has_head(rank)) kept += l.split.head.saved_bytes[0];
  return kept;
}

// While the backward of a layer runs.
int64_t working_bytes(const RankLayout& l, const RankLayers& layers, int64_t rank) {
  int64_t most = l.has_head(rank) ? l.split.head.working_bytes : 0;
  const auto meet = [&](const LayerCost& layer, int64_t count) {
    if (count == 0) return;
    int64_t bytes = layer.working_bytes;
    if (layers.again > 0) bytes += layer.saved_bytes[0];
    if (l.s.recompute == Recompute::kSelective) {
      bytes += layer.saved_bytes[0] - layer.saved_bytes[static_cast<size_t>(Recompute::kSelective)];
    }
    most = std::max(most, bytes);
  };
  meet(l.split.dense, layers.dense);
  meet(l.split.experts, layers.experts);
  return most;
}

int64_t buffer_bytes(const RankLayout& l, const RankLayers& layers, int64_t rank) {
  int64_t weights = layers.experts > 0 ? l.split.experts.largest_weights : 0;
  if (layers.dense > 0) {
    weights += layers.experts > 0 ? l.w.model.mlp_parameters(l.w.model.ffn) / l.s.tp
                                  : l.split.dense.largest_weights;
  }
  if (l.has_head(rank)) weights += l.split.head.largest_weights;
  return workspace_bytes(l) + weights * l.w.precision.parameter_bytes;
}

// What parameters of so many bytes each take, where ZeRO shares them from this stage on.
int64_t shared_bytes(const RankLayout& l, const RankLayout::Parameters& held, int64_t bytes,
                     int64_t zero_from) {
  const auto divided = [&](int64_t parameters, int64_t ranks) {
    if (parameters == 0 || l.s.zero < zero_from) return parameters * bytes;
    return ceil_div(parameters * bytes, ranks);
  };
  return divided(held.dense, l.shard) + divided(held.experts, l.expert_shard());
}

struct FixedBytes {
  int64_t parameters, gradients, optimizer, gathered, buffers;
};

FixedBytes fixed_bytes(const RankLayout& l, int64_t rank, const RankLayers& layers) {
  const RankLayout::Parameters held = l.parameters(layers, rank);
  const PrecisionChoice& p = l.w.precision;
  return {.parameters = shared_bytes(l, held, p.parameter_bytes, 3),
          .gradients = shared_bytes(l, held, p.gradient_bytes, 2),
          .optimizer = shared_bytes(l, held, p.state_bytes, 1),
          .gathered = l.gathers_weights() ? gathered_bytes(l, held, layers) : 0,
          .buffers = buffer_bytes(l, layers, rank)};
}

}  // namespace

StageMemory memory_of_rank(const RankLayout& l, int64_t rank, const RankLayers& layers) {
  StageMemory stage;
  stage.stage = static_cast<int>(rank);
  const FixedBytes fixed = fixed_bytes(l, rank, layers);
  const auto part = [&](MemoryPart which) -> int64_t& {
    return stage.bytes[static_cast<size_t>(which)];
  };
  part(MemoryPart::kParameters) = fixed.parameters;
  part(MemoryPart::kGradients) = fixed.gradients;
  part(MemoryPart::kOptimizer) = fixed.optimizer;
  part(MemoryPart::kGathered) = fixed.gathered;
  part(MemoryPart::kActivations) = kept_bytes(l, layers, rank);
  part(MemoryPart::kWorking) = working_bytes(l, layers, rank);
  part(MemoryPart::kBuffers) = fixed.buffers;
  return stage;
}

int64_t fixed_bytes_of_rank(const RankLayout& l, int64_t rank, const RankLayers& layers) {
  const FixedBytes fixed = fixed_bytes(l, rank, layers);
  return fixed.parameters + fixed.gradients + fixed.optimizer + fixed.gathered + fixed.buffers;
}

int64_t activation_bytes_of_rank(const RankLayout& l, int64_t rank, const RankLayers& layers) {
  return kept_bytes(l, layers, rank) + working_bytes(l, layers, rank);
}

int64_t peak_bytes(const RankLayout& l) {
  int64_t peak = 0;
  const auto meet = [&](int64_t rank, const RankLayers& layers) {
    peak = std::max(
        peak, fixed_bytes_of_rank(l, rank, layers) + activation_bytes_of_rank(l, rank, layers));
  };
  meet(0, l.layers.of_rank(0));
  const int64_t last = l.s.pp - 1;
  const int64_t middle = l.layers.middle_is_uniform() ? std::min<int64_t>(2, last) : last;
  RankLayers one = {.dense = -1}, other = one;  // met last; ranks mostly have one of two numbers
  for (int64_t rank = 1; rank < middle; ++rank) {
    // The first inner rank with these layers is the fullest: it keeps the most micro-batches.
    const RankLayers layers = l.layers.of_rank(rank);
    if (layers == one || layers == other) continue;
    meet(rank, layers);
    other = std::exchange(one, layers);
  }
  if (last > 0) meet(last, l.layers.of_rank(last));
  return peak;
}

int64_t mean_states_bytes(const RankLayout& l) {
  const ModelShape& m = l.w.model;
  const SplitCost& split = l.split;
  int64_t dense = (m.layers - m.moe_layers()) * split.dense.dense_parameters +
                  m.moe_layers() * split.experts.dense_parameters +
                  split.embedding.dense_parameters + split.head.dense_parameters;
  // Copies where the ends are on different ranks; some schedules have both on one.
  if (m.tied) dense -= m.table_parameters() / l.s.tp;
  const LayerCost& layer = l.has_experts() ? split.experts : split.dense;
  dense += m.mtp_layers * layer.dense_parameters;
  const int64_t experts =
      m.moe_layers() * split.experts.expert_parameters + m.mtp_layers * layer.expert_parameters;
  const PrecisionChoice& p = l.w.precision;
  const auto shared = [&](int64_t bytes, int64_t zero_from) {
    const bool sharded = l.s.zero >= zero_from;
    return dense * bytes / (sharded ? l.shard : 1) +
           experts * bytes / (sharded ? l.expert_shard() : 1);
  };
  return (shared(p.parameter_bytes, 3) + shared(p.gradient_bytes, 2) + shared(p.state_bytes, 1)) /
         l.s.pp;
}

int64_t stages_bound_bytes(const RankLayout& l) {
  const ModelShape& m = l.w.model;
  const auto full = static_cast<size_t>(Recompute::kFull);
  const bool dense_only = m.experts == 0;
  const bool experts_only = m.experts > 0 && m.dense_layers == 0;
  const int64_t states = mean_states_bytes(l);
  if (!dense_only && !experts_only) return states;
  if (l.s.pp * l.s.virtual_stages > m.layers) return states;  // ranks without layers
  const LayerCost& layer = dense_only ? l.split.dense : l.split.experts;
  const int64_t live = live_micro_batches(l.s, l.s.pp - 1, l.micro_batches);
  // kept_bytes rounds down twice before it multiplies.
  const int64_t rounding = 2 * live_micro_batches(l.s, 0, l.micro_batches);
  const int64_t inputs = std::max<int64_t>(
      0, m.layers * layer.saved_bytes[full] / l.s.virtual_stages * live / l.s.pp - rounding);
  return states + inputs + layer.working_bytes + workspace_bytes(l) +
         layer.largest_weights * l.w.precision.parameter_bytes;
}

}  // namespace tessera
