#include "cost/step/strategy.h"

#include <fmt/format.h>

#include <array>
#include <numeric>
#include <utility>

namespace tessera {

std::string_view name_of(AttentionKind kind) {
  constexpr std::array<std::string_view, 3> kNames = {"flash", "portable-flash", "unfused"};
  return kNames.at(static_cast<size_t>(kind));
}

std::string_view name_of(RankOrder order) {
  constexpr std::array<std::string_view, kNumRankOrders> kNames = {"tp,cp,dp,pp", "tp,pp,cp,dp",
                                                                   "cp,dp,tp,pp", "pp,tp,cp,dp"};
  return kNames.at(static_cast<size_t>(order));
}

AxisStrides strides_of(const Strategy& s) {
  const int64_t data = s.cp * s.dp;
  switch (s.order) {
    case RankOrder::kTensorDataPipeline:
      return {1, s.tp, s.tp * data};
    case RankOrder::kTensorPipelineData:
      return {1, s.tp * s.pp, s.tp};
    case RankOrder::kDataTensorPipeline:
      return {data, 1, s.tp * data};
    case RankOrder::kPipelineTensorData:
      return {s.pp, s.pp * s.tp, 1};
  }
  return {};
}

ExpertStrides expert_strides_of(const Strategy& s) {
  const AxisStrides strides = strides_of(s);
  if (s.order == RankOrder::kTensorDataPipeline) return {s.expert_tp, s.ep * s.expert_tp};
  if (s.order == RankOrder::kDataTensorPipeline) {
    if ((s.cp * s.dp) % s.ep != 0) return {};
    return {1, s.ep};
  }
  // Elsewhere the pipeline lies between tp and the data: experts are shared within one of them.
  if (s.ep * s.expert_tp == s.tp) return {strides.tp * s.expert_tp, strides.data};
  if (s.expert_tp == s.tp && (s.cp * s.dp) % s.ep == 0) {
    return {strides.data, strides.data * s.ep};
  }
  return {};
}

namespace {

std::string must_divide(std::string_view what, int64_t divisor, std::string_view of,
                        int64_t number) {
  return fmt::format("{} = {} does not divide {} = {}: choose a divisor", what, divisor, of,
                     number);
}

std::string wrong_sizes(const Strategy& s) {
  const std::array<std::pair<std::string_view, int64_t>, 8> sizes = {
      {{"tp", s.tp},
       {"pp", s.pp},
       {"dp", s.dp},
       {"cp", s.cp},
       {"ep", s.ep},
       {"expert_tp", s.expert_tp},
       {"virtual_stages", s.virtual_stages},
       {"micro_batch", s.micro_batch}}};
  for (const auto& [name, size] : sizes) {
    if (size < 1 || size > kMaxDevices) {
      return fmt::format("{} must be from 1 to {}, got {}", name, kMaxDevices, size);
    }
  }
  if (s.zero < 0 || s.zero > 3) return fmt::format("zero must be from 0 to 3, got {}", s.zero);
  // Products of the sizes must not overflow before they are compared.
  const double world = static_cast<double>(s.tp) * static_cast<double>(s.pp) *
                       static_cast<double>(s.dp) * static_cast<double>(s.cp);
  if (world > static_cast<double>(kMaxDevices)) {
    return fmt::format("tp * pp * dp * cp is {:g}, more than {} devices", world, kMaxDevices);
  }
  return "";
}

std::string wrong_stages(const Workload& w, const Strategy& s) {
  const int64_t stages = s.pp * s.virtual_stages;
  if (s.pp == 1 && s.virtual_stages > 1) {
    return fmt::format("virtual_stages = {} needs pp > 1", s.virtual_stages);
  }
  // A stage at the end may have the embedding or the head alone.
  if (stages > w.model.layers + 2) {
    return fmt::format("pp * virtual_stages = {} stages are more than {} layers and both ends",
                       stages, w.model.layers);
  }
  if (!s.stage_recompute.empty() && s.recompute != Recompute::kFull) {
    return "stage_recompute needs full recomputation";
  }
  if (!s.stage_recompute.empty() && std::cmp_not_equal(s.stage_recompute.size(), stages)) {
    return fmt::format("stage_recompute has {} numbers for {} stages", s.stage_recompute.size(),
                       stages);
  }
  for (const int64_t again : s.stage_recompute) {
    if (again < 0) return fmt::format("stage_recompute has {}: use 0 or more", again);
  }
  if (s.stage_layers.empty()) return "";
  if (std::cmp_not_equal(s.stage_layers.size(), stages)) {
    return fmt::format("stage_layers has {} numbers for {} stages", s.stage_layers.size(), stages);
  }
  const int64_t sum = std::accumulate(s.stage_layers.begin(), s.stage_layers.end(), int64_t{0});
  if (sum != w.model.layers) {
    return fmt::format("stage_layers add up to {} of {} layers", sum, w.model.layers);
  }
  return "";
}

std::string wrong_experts(const Workload& w, const Strategy& s) {
  const ModelShape& m = w.model;
  if (m.experts == 0) {
    return s.ep == 1 ? "" : fmt::format("ep = {} needs a model with experts", s.ep);
  }
  if (m.experts % s.ep != 0) return must_divide("ep", s.ep, "experts", m.experts);
  const int64_t ranks = s.tp * s.cp * s.dp;
  if (ranks % (s.ep * s.expert_tp) != 0) {
    return must_divide("ep * expert_tp", s.ep * s.expert_tp, "tp * cp * dp", ranks);
  }
  if (m.moe_ffn % s.expert_tp != 0) {
    return must_divide("expert_tp", s.expert_tp, "moe_ffn", m.moe_ffn);
  }
  if (expert_strides_of(s).ep == 0) {
    return fmt::format(
        "ep = {} is neither all of tp nor a part of the data, as rank order {} asks: choose {}",
        s.ep, name_of(s.order), name_of(RankOrder::kTensorDataPipeline));
  }
  return "";
}

}  // namespace

std::string why_impossible(const Workload& w, const Strategy& s) {
  if (std::string wrong = wrong_sizes(s); !wrong.empty()) return wrong;
  if (s.world() != w.cluster.devices) {
    return fmt::format("tp * pp * dp * cp is {} but the cluster has {} devices", s.world(),
                       w.cluster.devices);
  }
  if (w.model.heads % s.tp != 0) return must_divide("tp", s.tp, "heads", w.model.heads);
  if (w.model.ffn % s.tp != 0) return must_divide("tp", s.tp, "ffn", w.model.ffn);
  if (w.model.shared_ffn % s.tp != 0) {
    return must_divide("tp", s.tp, "shared_ffn", w.model.shared_ffn);
  }
  if (w.seq_len % (s.cp * (s.sequence_parallel ? s.tp : 1)) != 0) {
    return must_divide(s.sequence_parallel ? "cp * tp" : "cp",
                       s.cp * (s.sequence_parallel ? s.tp : 1), "seq_len", w.seq_len);
  }
  if (s.context == ContextKind::kUlysses && (w.model.heads / s.tp) % s.cp != 0) {
    return must_divide("cp", s.cp, "heads / tp", w.model.heads / s.tp);
  }
  if (w.global_batch % (s.dp * s.micro_batch) != 0) {
    return must_divide("dp * micro_batch", s.dp * s.micro_batch, "global_batch", w.global_batch);
  }
  const int64_t replicas = s.dp * s.cp;
  if (s.shard < 0 || (s.shard > 0 && replicas % s.shard != 0)) {
    return must_divide("shard", s.shard, "dp * cp", replicas);
  }
  if (std::string wrong = wrong_stages(w, s); !wrong.empty()) return wrong;
  return wrong_experts(w, s);
}

}  // namespace tessera
