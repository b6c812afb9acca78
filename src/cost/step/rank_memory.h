// What a pipeline rank of one strategy holds, by closed form, and bounds on it.
#pragma once

#include <algorithm>

#include "cost/step/cost_model.h"
#include "cost/step/layer_cost.h"
#include "cost/step/stages.h"

namespace tessera {

// The kinds of layers of a split, with the figures that every strategy of it needs.
struct SplitCost {
  LayerCost dense, experts, embedding, head;
};

// Lives on the stack of one call.
class RankMemory {
 public:
  RankMemory(const Workload& workload, const Strategy& strategy, const SplitCost& split,
             int64_t micro_batches)
      : w_(workload),
        s_(strategy),
        split_(split),
        micro_batches_(micro_batches),
        replicas_(strategy.dp * strategy.cp),
        shard_(strategy.shard > 0 ? strategy.shard : replicas_),
        head_rank_(rank_of_stage(strategy, strategy.pp * strategy.virtual_stages - 1)),
        expert_replicas_(
            std::max<int64_t>(1, strategy.tp * replicas_ / (strategy.ep * strategy.expert_tp))) {}

  // Without the parts that another stage of the same strategy may have.
  StageMemory memory(int64_t rank) const {
    return memory(rank, layers_of_rank(w_.model, s_, rank));
  }

  // As if the rank had these layers.
  StageMemory memory(int64_t rank, const RankLayers& layers) const {
    StageMemory stage;
    stage.stage = static_cast<int>(rank);
    const Parameters held = parameters(layers, rank);
    const PrecisionChoice& p = w_.precision;
    const auto part = [&](MemoryPart which) -> int64_t& {
      return stage.bytes[static_cast<size_t>(which)];
    };
    const auto shared = [&](int64_t bytes, int64_t zero_from) {
      const int64_t by = s_.zero >= zero_from ? shard_ : 1;
      const int64_t by_experts = s_.zero >= zero_from ? std::min(expert_replicas_, shard_) : 1;
      return (held.dense * bytes + by - 1) / by +
             (held.experts * bytes + by_experts - 1) / by_experts;
    };
    part(MemoryPart::kParameters) = shared(p.parameter_bytes, 3);
    part(MemoryPart::kGradients) = shared(p.gradient_bytes, 2);
    part(MemoryPart::kOptimizer) = shared(p.state_bytes, 1);
    if (s_.zero == 3 && replicas_ > 1) part(MemoryPart::kGathered) = gathered_bytes(held, layers);
    part(MemoryPart::kActivations) = kept_bytes(layers, rank);
    part(MemoryPart::kWorking) = working_bytes(layers, rank);
    part(MemoryPart::kBuffers) = buffer_bytes(layers, rank);
    return stage;
  }

  // At most the peak of every choice of stages and of layers to compute again: average states,
  // one layer in work, and the inputs of layers for as many micro-batches as every rank keeps.
  [[nodiscard]] int64_t stages_bound_bytes() const {
    const ModelShape& m = w_.model;
    const auto full = static_cast<size_t>(Recompute::kFull);
    const bool dense_only = m.experts == 0;
    const bool experts_only = m.experts > 0 && m.dense_layers == 0;
    if (!dense_only && !experts_only) return mean_states_bytes();
    if (s_.pp * s_.virtual_stages > m.layers) return mean_states_bytes();  // ranks without layers
    const LayerCost& layer = dense_only ? split_.dense : split_.experts;
    const int64_t live = live_micro_batches(s_, s_.pp - 1, micro_batches_);
    // kept_bytes rounds down twice before it multiplies.
    const int64_t rounding = 2 * live_micro_batches(s_, 0, micro_batches_);
    const int64_t inputs = std::max<int64_t>(
        0, m.layers * layer.saved_bytes[full] / s_.virtual_stages * live / s_.pp - rounding);
    return mean_states_bytes() + inputs + layer.working_bytes + workspace_bytes() +
           layer.largest_weights * w_.precision.parameter_bytes;
  }

  [[nodiscard]] int64_t mean_states_bytes() const {
    const ModelShape& m = w_.model;
    int64_t dense = (m.layers - m.moe_layers()) * split_.dense.dense_parameters +
                    m.moe_layers() * split_.experts.dense_parameters +
                    split_.embedding.dense_parameters + split_.head.dense_parameters;
    // Copies where the ends are on different ranks; some schedules have both on one.
    if (m.tied) dense -= m.table_parameters() / s_.tp;
    const LayerCost& layer = m.experts > 0 ? split_.experts : split_.dense;
    dense += m.mtp_layers * layer.dense_parameters;
    const int64_t experts =
        m.moe_layers() * split_.experts.expert_parameters + m.mtp_layers * layer.expert_parameters;
    const PrecisionChoice& p = w_.precision;
    const auto shared = [&](int64_t bytes, int64_t zero_from) {
      const bool split = s_.zero >= zero_from;
      return dense * bytes / (split ? shard_ : 1) +
             experts * bytes / (split ? std::min(expert_replicas_, shard_) : 1);
    };
    return (shared(p.parameter_bytes, 3) + shared(p.gradient_bytes, 2) + shared(p.state_bytes, 1)) /
           s_.pp;
  }

  // Memory of the fullest stage.
  [[nodiscard]] int64_t peak_bytes() const {
    int64_t peak = memory(0).total();
    const int64_t last = s_.pp - 1;
    const int64_t middle = middle_is_uniform() ? std::min<int64_t>(2, last) : last;
    for (int64_t rank = 1; rank < middle; ++rank) peak = std::max(peak, memory(rank).total());
    return last > 0 ? std::max(peak, memory(last).total()) : peak;
  }

  // Whether all pipeline ranks between the first and the last have the same layers. Then the
  // second is the fullest of them, as it holds the most micro-batches.
  [[nodiscard]] bool middle_is_uniform() const {
    if (!s_.stage_layers.empty() || !s_.stage_recompute.empty() || w_.model.experts > 0) {
      return false;
    }
    const int64_t left = w_.model.layers % (s_.pp * s_.virtual_stages);
    return left == 0 || s_.pp * s_.virtual_stages - left <= 2;
  }

 protected:
  struct Parameters {
    int64_t dense = 0, experts = 0;
  };

  Parameters parameters(const RankLayers& layers, int64_t rank) const {
    Parameters held;
    held.dense = layers.dense * split_.dense.dense_parameters +
                 layers.experts * split_.experts.dense_parameters;
    held.experts = layers.experts * split_.experts.expert_parameters;
    if (rank == 0) held.dense += split_.embedding.dense_parameters;
    if (rank == head_rank_) {
      held.dense += split_.head.dense_parameters;
      if (rank == 0 && w_.model.tied) held.dense -= w_.model.table_parameters() / s_.tp;
      const LayerCost& layer = w_.model.experts > 0 ? split_.experts : split_.dense;
      held.dense += w_.model.mtp_layers * layer.dense_parameters;
      held.experts += w_.model.mtp_layers * layer.expert_parameters;
    }
    return held;
  }

  const Workload& w_;
  const Strategy& s_;
  const SplitCost& split_;
  int64_t micro_batches_;
  int64_t replicas_;         // of dense parameters
  int64_t shard_;            // ranks that share their states
  int64_t head_rank_;        // the pipeline rank of the last stage
  int64_t expert_replicas_;  // of an expert

 private:
  [[nodiscard]] int64_t workspace_bytes() const {
    return static_cast<int64_t>(w_.engine.workspace_bytes);
  }

  [[nodiscard]] int64_t gathered_bytes(const Parameters& held, const RankLayers& layers) const {
    const PrecisionChoice& p = w_.precision;
    if (!s_.release_after_forward) return (held.dense + held.experts) * p.parameter_bytes;
    const LayerCost& layer = layers.experts > 0 ? split_.experts : split_.dense;
    const int64_t unit = std::max(layer.dense_parameters + layer.expert_parameters,
                                  w_.model.table_parameters() / s_.tp);
    // Weights of the unit in use and of those fetched ahead, and the gradient of one.
    return unit *
           (static_cast<int64_t>(w_.engine.gathered_units) * p.parameter_bytes + p.gradient_bytes);
  }

  [[nodiscard]] int64_t kept_bytes(const RankLayers& layers, int64_t rank) const {
    const auto kind = static_cast<size_t>(s_.recompute);
    const int64_t v = s_.virtual_stages;
    const int64_t live = live_micro_batches(s_, rank, micro_batches_);
    const int64_t all = layers.dense * split_.dense.saved_bytes[kind] +
                        layers.experts * split_.experts.saved_bytes[kind];
    int64_t kept = all / v * live;
    if (s_.recompute == Recompute::kFull && layers.again < layers.total()) {
      const int64_t whole = layers.dense * split_.dense.saved_bytes[0] +
                            layers.experts * split_.experts.saved_bytes[0];
      const int64_t again = layers.again, total = layers.total();
      kept = (all * again + whole * (total - again)) / total / v * live;
    }
    const int64_t live_ends = (live + v - 1) / v;
    if (rank == 0) kept += live_ends * split_.embedding.saved_bytes[0];
    if (rank == head_rank_) kept += split_.head.saved_bytes[0];
    return kept;
  }

  [[nodiscard]] int64_t working_bytes(const RankLayers& layers, int64_t rank) const {
    int64_t most = rank == head_rank_ ? split_.head.working_bytes : 0;
    const auto meet = [&](const LayerCost& layer, int64_t count) {
      if (count == 0) return;
      int64_t bytes = layer.working_bytes;
      if (layers.again > 0) bytes += layer.saved_bytes[0];
      if (s_.recompute == Recompute::kSelective)
        bytes +=
            layer.saved_bytes[0] - layer.saved_bytes[static_cast<size_t>(Recompute::kSelective)];
      most = std::max(most, bytes);
    };
    meet(split_.dense, layers.dense);
    meet(split_.experts, layers.experts);
    return most;
  }

  [[nodiscard]] int64_t buffer_bytes(const RankLayers& layers, int64_t rank) const {
    int64_t weights = layers.experts > 0 ? split_.experts.largest_weights : 0;
    if (layers.dense > 0) {
      weights += layers.experts > 0 ? w_.model.mlp_parameters(w_.model.ffn) / s_.tp
                                    : split_.dense.largest_weights;
    }
    if (rank == head_rank_) weights += split_.head.largest_weights;
    return workspace_bytes() + weights * w_.precision.parameter_bytes;
  }
};

}  // namespace tessera
