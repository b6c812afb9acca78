#include "cost/step/cost_model.h"

#include <algorithm>
#include <unordered_map>

#include "cost/step/pricing.h"
#include "cost/step/rank_memory.h"
#include "cost/step/rank_trial.h"
#include "cost/step/to_double.h"
#include "cost/step/workload_limits.h"

namespace tessera {
namespace {

// Sums in another order differ in their last bits, and a bound must stay below.
constexpr double kRounding = 1 - 1e-9;

// What the layers' costs depend on.
struct SplitKey {
  int64_t tp, cp, ep, expert_tp, micro_batch, tp_stride, data_stride, ep_stride;
  bool sequence_parallel;
  ContextKind context;
  bool operator==(const SplitKey&) const = default;
};

struct SplitHash {
  size_t operator()(const SplitKey& key) const {
    uint64_t hash = 0;
    for (const int64_t part :
         {key.tp, key.cp, key.ep, key.expert_tp, key.micro_batch, key.tp_stride, key.data_stride,
          key.ep_stride,
          static_cast<int64_t>(key.sequence_parallel) * 4 + static_cast<int64_t>(key.context)}) {
      hash = (hash ^ static_cast<uint64_t>(part)) * 0x9E3779B97F4A7C15ULL;
      hash ^= hash >> 29;
    }
    return static_cast<size_t>(hash);
  }
};

SplitKey key_of(const Strategy& s) {
  // Without cp nobody asks how far its ranks are apart, nor without tp or ep.
  const AxisStrides strides = strides_of(s);
  return {s.tp,
          s.cp,
          s.ep,
          s.expert_tp,
          s.micro_batch,
          s.tp > 1 ? strides.tp : 1,
          s.cp > 1 ? strides.data : 1,
          s.ep > 1 ? expert_strides_of(s).ep : 1,
          s.sequence_parallel,
          s.context};
}

// Products of scores and of values of one token, in all layers, under a causal mask.
double scores_of_token(const Workload& w) {
  const ModelShape& m = w.model;
  return to_double(m.layers + m.mtp_layers) * to_double(m.query_width() + m.value_width()) *
         to_double(w.seq_len) / 2;
}

// The part of what it could that a way of recomputing computes again: the full way may leave layers
// out.
double share_again(const Workload& w, const Strategy& s) {
  if (s.recompute != Recompute::kFull) return 1;
  int64_t again = 0;
  const StageLayers layers(w.model, s);
  for (int64_t rank = 0; rank < s.pp; ++rank) again += layers.of_rank(rank).again;
  return to_double(again) / to_double(w.model.layers);
}

}  // namespace

struct CostModel::Memo {
  Workload workload;
  std::unordered_map<SplitKey, SplitCost, SplitHash> splits;
  // The one asked for last: a search asks for the same many times in a row.
  SplitKey last_key = {};
  const SplitCost* last = nullptr;

  Memo() = default;
  explicit Memo(const Memo& other) : workload(other.workload), splits(other.splits) {}
  Memo& operator=(const Memo&) = delete;

  const SplitCost& split(const Strategy& s) {
    const SplitKey key = key_of(s);
    if (last == nullptr || key != last_key) {
      const auto found = splits.find(key);
      last = found != splits.end() ? &found->second : &splits.emplace(key, priced(s)).first->second;
      last_key = key;
    }
    return *last;
  }

  [[nodiscard]] SplitCost priced(const Strategy& s) const {
    SplitCost cost;
    const ModelShape& m = workload.model;
    if (m.moe_layers() < m.layers) cost.dense = layer_cost(workload, s, false);
    if (m.moe_layers() > 0) cost.experts = layer_cost(workload, s, true);
    cost.embedding = embedding_cost(workload, s);
    cost.head = head_cost(workload, s);
    return cost;
  }

  [[nodiscard]] int64_t micro_batches(const Strategy& s) const {
    return std::max<int64_t>(1, workload.global_batch / (s.dp * s.micro_batch));
  }

  RankLayout layout(const Strategy& s) { return {workload, s, split(s), micro_batches(s)}; }
};

CostModel::CostModel(Workload workload) : memo_(std::make_unique<Memo>()) {
  check(workload);
  memo_->workload = std::move(workload);
}

CostModel::CostModel(const CostModel& other) : memo_(std::make_unique<Memo>(*other.memo_)) {}

CostModel::~CostModel() = default;

const Workload& CostModel::workload() const { return memo_->workload; }

QuickEstimate CostModel::quick(const Strategy& strategy) {
  const RankLayout layout = memo_->layout(strategy);
  return {Pricing(layout).step().time.step_s, tessera::peak_bytes(layout)};
}

int64_t CostModel::peak_bytes(const Strategy& strategy) {
  return tessera::peak_bytes(memo_->layout(strategy));
}

double CostModel::step_s(const Strategy& strategy) {
  return Pricing(memo_->layout(strategy)).step().time.step_s;
}

PipelineSeconds CostModel::pipeline(const Strategy& strategy) {
  return Pricing(memo_->layout(strategy)).pipeline();
}

double CostModel::work_bound_s(const Strategy& strategy) {
  Strategy least = strategy;
  least.recompute = Recompute::kNone;
  least.schedule = PipelineKind::k1F1B;  // hides the most of what weight gradients can hide
  least.virtual_stages = 1;
  return to_double(memo_->micro_batches(strategy)) * RankTimes(memo_->layout(least)).mean_rank_s() *
         kRounding;
}

double CostModel::stages_bound_s(const Strategy& strategy, double busiest_s) {
  Strategy least = strategy;
  if (least.recompute == Recompute::kFull) least.recompute = Recompute::kNone;
  least.stage_recompute.clear();
  return Pricing(memo_->layout(least)).stages_bound_s(busiest_s) * kRounding;
}

int64_t CostModel::stages_bound_bytes(const Strategy& strategy) {
  return tessera::stages_bound_bytes(memo_->layout(strategy));
}

RankTrial CostModel::rank_trial(const Strategy& strategy) {
  return RankTrial(memo_->layout(strategy));
}

int64_t CostModel::states_bound_bytes(const Strategy& strategy) {
  return mean_states_bytes(memo_->layout(strategy));
}

Estimate CostModel::estimate(const Strategy& strategy) {
  const Workload& w = memo_->workload;
  const RankLayout layout = memo_->layout(strategy);
  Pricing pricing(layout);
  Estimate result;
  const Breakdown breakdown = pricing.step();
  result.time = breakdown.time;
  result.time.forward_s = pricing.forward_kernels_s();
  result.traffic = breakdown.traffic;
  for (int64_t rank = 0; rank < strategy.pp; ++rank) {
    result.stages.push_back(memory_of_rank(layout, rank, layout.layers.of_rank(rank)));
    const size_t fullest = static_cast<size_t>(result.fullest_stage);
    if (result.stages.back().total() > result.stages[fullest].total()) {
      result.fullest_stage = static_cast<int>(rank);
    }
  }
  const double tokens = to_double(w.global_batch) * to_double(w.seq_len);
  result.model_flops = model_flops(w);
  result.hardware_flops =
      result.model_flops + recomputed_flops(w, strategy.recompute) * share_again(w, strategy);
  const double devices = to_double(strategy.world());
  const double possible =
      result.time.step_s * devices * w.cluster.device.peak(w.precision.products);
  result.mfu = result.model_flops / possible;
  result.hfu = result.hardware_flops / possible;
  result.tokens_per_s = tokens / result.time.step_s;
  result.flops_per_device_s = result.model_flops / (result.time.step_s * devices);
  return result;
}

PassTimes CostModel::pass_times(const Strategy& strategy, bool experts) {
  const SplitCost& split = memo_->split(strategy);
  const LayerCost& layer = experts ? split.experts : split.dense;
  PassSeconds pass = pass_seconds(layer, strategy.recompute);
  if (strategy.recompute == Recompute::kFull) pass = with_again(pass, 1);
  return {pass.forward, pass.backward, layer.weight_grad_s};
}

double model_flops(const Workload& w) {
  const ModelShape& m = w.model;
  const double tokens = to_double(w.global_batch) * to_double(w.seq_len);
  const double attention = scores_of_token(w);
  return 6 * tokens * (to_double(m.product_weights()) + attention);
}

double recomputed_flops(const Workload& w, Recompute recompute) {
  if (recompute == Recompute::kNone) return 0;
  const ModelShape& m = w.model;
  const double tokens = to_double(w.global_batch) * to_double(w.seq_len);
  const double attention = scores_of_token(w);
  if (recompute == Recompute::kSelective) return 2 * tokens * attention;
  return 2 * tokens * (to_double(m.product_weights() - m.table_parameters()) + attention);
}

}  // namespace tessera
