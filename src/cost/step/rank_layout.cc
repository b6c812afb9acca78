#include "cost/step/rank_layout.h"

#include <algorithm>

namespace tessera {

RankLayout::RankLayout(const Workload& workload, const Strategy& strategy, const SplitCost& costs,
                       int64_t number_of_micro_batches)
    : w(workload),
      s(strategy),
      split(costs),
      layers(workload.model, strategy),
      micro_batches(number_of_micro_batches),
      replicas(strategy.dp * strategy.cp),
      shard(strategy.shard > 0 ? strategy.shard : replicas),
      head_rank(rank_of_stage(strategy, strategy.pp * strategy.virtual_stages - 1)),
      experts_on_tp(workload.engine.experts_whole_on_tp != 0 && strategy.tp > 1 &&
                    strategy.ep * strategy.expert_tp == 1),
      expert_replicas(experts_on_tp ? replicas
                                    : std::max<int64_t>(1, strategy.tp * replicas /
                                                               (strategy.ep * strategy.expert_tp))),
      expert_stride(experts_on_tp ? strides_of(strategy).data
                                  : expert_strides_of(strategy).replicas) {}

RankLayout::Parameters RankLayout::parameters(const RankLayers& here, int64_t rank) const {
  Parameters held;
  held.dense =
      here.dense * split.dense.dense_parameters + here.experts * split.experts.dense_parameters;
  held.experts = here.experts * split.experts.expert_parameters;
  if (has_embedding(rank)) held.dense += split.embedding.dense_parameters;
  if (has_head(rank)) {
    held.dense += split.head.dense_parameters;
    if (has_embedding(rank) && w.model.tied) held.dense -= w.model.table_parameters() / s.tp;
    const LayerCost& layer = has_experts() ? split.experts : split.dense;
    held.dense += w.model.mtp_layers * layer.dense_parameters;
    held.experts += w.model.mtp_layers * layer.expert_parameters;
  }
  return held;
}

SumBuckets RankLayout::buckets(const RankLayers& here, int64_t rank) const {
  SumBuckets sum;
  const auto add = [&](const LayerCost& cost, int64_t count) {
    sum.dense += count * cost.buckets.dense;
    sum.experts += count * cost.buckets.experts;
    sum.small += count * cost.buckets.small;
  };
  add(split.dense, here.dense);
  add(split.experts, here.experts);
  if (has_embedding(rank)) add(split.embedding, 1);
  if (has_head(rank)) add(split.head, 1);
  return sum;
}

}  // namespace tessera
