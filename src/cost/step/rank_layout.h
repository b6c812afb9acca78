// One strategy on its workload, and what memory and times of all its pipeline ranks start from:
// the costs of its kinds of layers, and how many ranks share what.
#pragma once

#include <cstdint>

#include "cost/step/layer_cost.h"
#include "cost/step/stages.h"

namespace tessera {

// The kinds of layers: what all strategies with the same split and micro-batch have in common.
struct SplitCost {
  LayerCost dense, experts, embedding, head;
};

// Lives on the stack of one call; workload, strategy and split must outlive it.
struct RankLayout {
  RankLayout(const Workload& workload, const Strategy& strategy, const SplitCost& split,
             int64_t micro_batches);

  [[nodiscard]] bool has_embedding(int64_t rank) const { return rank == 0; }
  [[nodiscard]] bool has_head(int64_t rank) const { return rank == head_rank; }
  [[nodiscard]] bool is_end(int64_t rank) const { return has_embedding(rank) || has_head(rank); }
  // Layers that predict later tokens, behind those of the last stage.
  [[nodiscard]] int64_t mtp_layers(int64_t rank) const {
    return has_head(rank) ? w.model.mtp_layers : 0;
  }
  [[nodiscard]] bool has_experts() const { return w.model.experts > 0; }
  // ZeRO-3: weights are gathered where they are used.
  [[nodiscard]] bool gathers_weights() const { return s.zero == 3 && replicas > 1; }
  // Gradients are summed over replicas in every backward, not after the last.
  [[nodiscard]] bool sums_in_layers() const {
    return s.zero == 3 || (s.zero == 2 && w.engine.adds_every_micro_batch != 0);
  }
  // Ranks that share the states of an expert.
  [[nodiscard]] int64_t expert_shard() const {
    return expert_replicas < shard ? expert_replicas : shard;
  }

  struct Parameters {
    int64_t dense = 0, experts = 0;
  };
  [[nodiscard]] Parameters parameters(const RankLayers& held, int64_t rank) const;
  // In how many collectives they are added up.
  [[nodiscard]] SumBuckets buckets(const RankLayers& held, int64_t rank) const;

  const Workload& w;
  const Strategy& s;
  const SplitCost& split;
  StageLayers layers;
  int64_t micro_batches;
  int64_t replicas;         // of dense parameters
  int64_t shard;            // ranks that share their states
  int64_t head_rank;        // the pipeline rank of the last stage
  bool experts_on_tp;       // ranks of tp have the same experts, whole, and add up first
  int64_t expert_replicas;  // of an expert, on the data axes alone where `experts_on_tp`
  int64_t expert_stride;    // devices between them
};

}  // namespace tessera
