#include "search/space.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/rounding.h"
#include "cost/hardware/cluster.h"
#include "cost/step/stages.h"
#include "plan/run_of_strategy.h"

namespace tessera {
namespace {

constexpr int64_t kMostMicroBatch = 32;
constexpr int64_t kMostVirtualStages = 16;

std::vector<int64_t> divisors(int64_t number, int64_t most) {
  std::vector<int64_t> small, large;
  for (int64_t i = 1; i * i <= number; ++i) {
    if (number % i != 0) continue;
    if (i <= most) small.push_back(i);
    if (i != number / i && number / i <= most) large.push_back(number / i);
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

bool is_free(int64_t fixed, int64_t value) { return fixed == 0 || fixed == value; }

template <typename Values, typename Value>
bool has(const Values& values, const Value& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// Whether anybody asks for what run files can say.
bool must_be_sayable(const FixedAxes& fixed) { return fixed.sayable || fixed.system != nullptr; }

bool is_schedule_free(const FixedAxes& fixed, PipelineKind kind) {
  if (!fixed.schedules.empty() && !has(fixed.schedules, kind)) return false;
  return fixed.system == nullptr || has(fixed.system->schedules, kind);
}

bool is_zero_free(const FixedAxes& fixed, const Strategy& s) {
  if (fixed.zero >= 0 && fixed.zero != s.zero) return false;
  if (fixed.system == nullptr) return true;
  const bool hybrid = s.zero > 0 && s.shard > 0 && s.shard < s.dp * s.cp;
  return has(fixed.system->zero, s.zero) &&
         (s.pp == 1 || has(fixed.system->zero_with_pp, s.zero)) &&
         (!hybrid || has(fixed.system->zero_within_fsdp, s.zero));
}

std::optional<RecomputeChoice> choice_of(RecomputeWay way) {
  switch (way) {
    case RecomputeWay::kNone:
      return RecomputeChoice{};
    case RecomputeWay::kSelective:
      return RecomputeChoice{.norms = true, .activations = true, .attention = true};
    case RecomputeWay::kFull:
      return RecomputeChoice{.blocks = 1};
    case RecomputeWay::kSome:
      break;
  }
  return std::nullopt;
}

bool is_recompute_free(const FixedAxes& fixed, RecomputeWay way) {
  if (!fixed.recompute.empty() && !has(fixed.recompute, way)) return false;
  return fixed.system == nullptr || can_recompute(*fixed.system, choice_of(way));
}

CutSizes cut_sizes(const Workload& w) {
  return {w.model.layers, w.model.hidden, w.model.ffn, w.model.vocab};
}

// What the work of a layer depends on: see the groups of a search.
bool is_group_free(const FixedAxes& fixed, const Workload& w, const Strategy& s) {
  if (must_be_sayable(fixed) && !unsayable_choice(w, s).empty()) return false;
  if (fixed.system == nullptr) return true;
  const SystemRules& rules = *fixed.system;
  if (s.cp > 1 && !has(rules.context, s.context)) return false;
  if (s.ep > 1 && !rules.experts) return false;
  if (s.tp > w.model.kv_heads && !rules.tp_above_kv_heads) return false;
  if (rules.sequence == SequenceRule::kNever && s.sequence_parallel) return false;
  return rules.sequence != SequenceRule::kAlwaysWithTp || s.tp == 1 || s.sequence_parallel;
}

constexpr RankOrder kOrders[] = {RankOrder::kTensorDataPipeline, RankOrder::kTensorPipelineData,
                                 RankOrder::kDataTensorPipeline, RankOrder::kPipelineTensorData};

// Whether an order of ranks differs from the first one on a cluster of several nodes.
bool is_other_order(const Strategy& s, RankOrder order) {
  const bool data = s.cp * s.dp > 1;
  switch (order) {
    case RankOrder::kTensorDataPipeline:
      return false;
    case RankOrder::kTensorPipelineData:
      return s.pp > 1 && data;
    case RankOrder::kDataTensorPipeline:
      return s.tp > 1 && data;
    case RankOrder::kPipelineTensorData:
      return s.pp > 1 && s.tp > 1;
  }
  return false;
}

// Devices that the ranks which share experts spread over; 0: the order has no place for them.
int64_t expert_span(Strategy s, RankOrder order) {
  s.order = order;
  return expert_strides_of(s).ep * s.ep;
}

bool is_tried(const Workload& w, const Strategy& s, RankOrder order) {
  constexpr RankOrder kFirst = kOrders[0];
  const int64_t node = w.cluster.node_devices();
  if (w.cluster.levels.size() < 2 || node >= w.cluster.devices) return order == kFirst;
  if (order != kFirst && !is_other_order(s, order)) return false;
  if (s.ep == 1) return true;
  // What experts exchange is far more than what the other axes do: an order that takes it out of
  // the node where the first one keeps it inside is not tried.
  const int64_t span = expert_span(s, order);
  return span > 0 && span <= std::max(node, expert_span(s, kFirst));
}

class SpaceBuilder {
 public:
  SpaceBuilder(const Workload& workload, const FixedAxes& fixed) : w_(workload), fixed_(fixed) {}

  SearchSpace build() {
    const int64_t devices = w_.cluster.devices;
    for (const int64_t tp : divisors(devices, devices)) {
      for (const int64_t pp : divisors(devices / tp, devices)) {
        for (const int64_t cp : divisors(devices / tp / pp, devices)) add_split(tp, pp, cp);
      }
    }
    for (const auto& [reason, splits] : rejected_) space_.rejected.push_back({reason, splits});
    return std::move(space_);
  }

 private:
  void add_split(int64_t tp, int64_t pp, int64_t cp) {
    Strategy s;
    s.tp = tp;
    s.pp = pp;
    s.cp = cp;
    s.dp = w_.cluster.devices / (tp * pp * cp);
    ++space_.splits;
    if (const char* reason = why_not(s)) {
      ++rejected_[reason];
      return;
    }
    const size_t before = space_.groups.size();
    forbidden_ = false;
    if (w_.model.experts == 0) {
      add_groups(s);
    } else {
      for (const int64_t ep : divisors(w_.model.experts, w_.model.experts)) {
        if (!is_free(fixed_.ep, ep)) continue;
        s.ep = ep;
        s.expert_tp = 1;
        add_groups(s);
        if (tp == 1) continue;
        s.expert_tp = tp;
        add_groups(s);
      }
    }
    if (space_.groups.size() > before) return;
    ++rejected_[forbidden_ ? "nothing of it is what --zero, --schedule, --recompute or --for allow"
                           : "no micro-batch or number of experts divides"];
  }

  // What why_impossible would say of it, in words that many splits share.
  const char* why_not(const Strategy& s) const {
    const ModelShape& m = w_.model;
    if (!is_free(fixed_.tp, s.tp) || !is_free(fixed_.pp, s.pp) || !is_free(fixed_.cp, s.cp) ||
        !is_free(fixed_.dp, s.dp)) {
      return "other than what --tp, --pp, --cp or --dp ask for";
    }
    if (m.heads % s.tp != 0) return "tp does not divide the heads";
    if (m.ffn % s.tp != 0 || m.shared_ffn % s.tp != 0) return "tp does not divide the MLP";
    if (s.pp > m.layers) return "more pipeline ranks than layers";
    if (s.cp > 1 && w_.seq_len % (2 * s.cp) != 0) return "2 * cp does not divide the sequence";
    if (w_.global_batch % s.dp != 0) return "dp does not divide the global batch";
    return nullptr;
  }

  void add_groups(Strategy s) {
    for (const int64_t micro : divisors(w_.global_batch / s.dp, kMostMicroBatch)) {
      if (!is_free(fixed_.micro_batch, micro)) continue;
      s.micro_batch = micro;
      for (const RankOrder order : kOrders) {
        if (!is_tried(w_, s, order)) continue;
        s.order = order;
        for (const bool sequence_parallel : {false, true}) {
          if (sequence_parallel && s.tp == 1) continue;
          s.sequence_parallel = sequence_parallel;
          for (const ContextKind kind :
               {ContextKind::kRing, ContextKind::kAllGather, ContextKind::kUlysses}) {
            if (kind != ContextKind::kRing && s.cp == 1) continue;
            s.context = kind;
            if (!why_impossible(w_, s).empty()) continue;
            if (is_group_free(fixed_, w_, s) && variants_of(w_, s, fixed_).count() > 0) {
              require_config(
                  std::ssize(space_.groups) < kMostGroups,
                  "{} devices and batches of {} have more than {} choices of split, "
                  "micro-batch, context parallelism and order to search: fix one of "
                  "--tp, --pp, --cp, --dp, --ep and --micro-batch, or take fewer devices",
                  w_.cluster.devices, w_.global_batch, kMostGroups);
              space_.groups.push_back(s);
            } else {
              forbidden_ = true;
            }
          }
        }
      }
    }
  }

  const Workload& w_;
  const FixedAxes& fixed_;
  SearchSpace space_;
  bool forbidden_ = false;  // a choice of the split in work
  std::map<std::string, int64_t> rejected_;
};

// All that a pipeline of so many ranks, layers and micro-batches can have.
std::vector<ScheduleChoice> possible_schedules(const Workload& w, const Strategy& s) {
  const int64_t layers = w.model.layers;
  const int64_t micro_batches = w.global_batch / (s.dp * s.micro_batch);
  std::vector<ScheduleChoice> choices = {
      {PipelineKind::k1F1B, 1}, {PipelineKind::kZbH1, 1}, {PipelineKind::kZbH2, 1}};
  if (2 * s.pp <= layers) {
    choices.push_back({PipelineKind::kZbV, 2});
    if (micro_batches >= 2 * s.pp) choices.push_back({PipelineKind::kDualPipeV, 2});
  }
  if (micro_batches % s.pp == 0) {
    for (int64_t v = 2; v <= kMostVirtualStages && v * s.pp <= layers + 2; ++v) {
      const int64_t stages = v * s.pp;
      // Equal stages, also where the embedding and the head count as layers.
      if (layers % stages == 0 || (layers + 1) % stages == 0 || (layers + 2) % stages == 0) {
        choices.push_back({PipelineKind::kInterleaved, v});
      }
    }
  }
  return choices;
}

// GPipe is as slow as 1F1B and keeps more, so it is only tried for who asks for it.
std::vector<ScheduleChoice> schedules_of(const Workload& w, const Strategy& s,
                                         const FixedAxes& fixed) {
  if (s.pp == 1) return {{}};
  std::vector<ScheduleChoice> choices = possible_schedules(w, s);
  if (has(fixed.schedules, PipelineKind::kGPipe)) choices.push_back({PipelineKind::kGPipe, 1});
  std::erase_if(choices, [&](const ScheduleChoice& choice) {
    if (!is_schedule_free(fixed, choice.kind)) return true;
    if (!is_free(fixed.virtual_stages, choice.virtual_stages)) return true;
    Strategy cut = s;
    cut.virtual_stages = choice.virtual_stages;
    if (fixed.system == nullptr) return false;
    if (fixed.system->own_stages != nullptr) return choice.virtual_stages > 1;
    return !can_cut(*fixed.system, cut_sizes(w), stage_layers_of(w, cut));
  });
  for (ScheduleChoice& choice : choices) {
    if (fixed.system == nullptr || fixed.system->own_stages == nullptr) break;
    choice.stage_layers = fixed.system->own_stages(cut_sizes(w), s.pp);
  }
  // Some have a cut that leaves a stage without layers.
  std::erase_if(choices,
                [](const ScheduleChoice& choice) { return has(choice.stage_layers, int64_t{0}); });
  return choices;
}

std::vector<ShardingChoice> shardings_of(const Workload& w, const Strategy& s,
                                         const FixedAxes& fixed) {
  const int64_t replicas = s.dp * s.cp;
  std::vector<int64_t> shards;  // of ZeRO-3; 0: all replicas share
  for (const int64_t shard : divisors(replicas, replicas / 2))
    shards.push_back(shard > 1 ? shard : 0);
  std::vector<ShardingChoice> choices(replicas == 1 ? 1 : 3 + 2 * shards.size());
  for (size_t i = 0; i < choices.size(); ++i) {
    choices[i].zero = static_cast<int64_t>(std::min<size_t>(i, 3));
    if (i < 3) continue;
    choices[i].shard = shards[(i - 3) % shards.size()];
    choices[i].release_after_forward = i - 3 < shards.size();
  }
  std::erase_if(choices, [&](const ShardingChoice& choice) {
    Strategy shared = s;
    shared.zero = choice.zero;
    shared.shard = choice.shard;
    return !is_zero_free(fixed, shared) ||
           (must_be_sayable(fixed) && !unsayable_choice(w, shared).empty());
  });
  return choices;
}

}  // namespace

RecomputeWay way_of(const Strategy& s) {
  if (s.recompute == Recompute::kSelective) return RecomputeWay::kSelective;
  if (s.recompute != Recompute::kFull) return RecomputeWay::kNone;
  const bool all = s.stage_recompute.empty() && s.recompute_layers < 0;
  return all ? RecomputeWay::kFull : RecomputeWay::kSome;
}

bool keeps_fixed(const FixedAxes& fixed, const Strategy& s) {
  return is_free(fixed.tp, s.tp) && is_free(fixed.pp, s.pp) && is_free(fixed.dp, s.dp) &&
         is_free(fixed.cp, s.cp) && is_free(fixed.ep, s.ep) &&
         is_free(fixed.micro_batch, s.micro_batch) && is_zero_free(fixed, s) &&
         (s.pp == 1 || (is_schedule_free(fixed, s.schedule) &&
                        is_free(fixed.virtual_stages, s.virtual_stages))) &&
         is_recompute_free(fixed, way_of(s));
}

bool is_allowed(const FixedAxes& fixed, const Workload& workload, const Strategy& s) {
  if (!keeps_fixed(fixed, s) || !is_group_free(fixed, workload, s)) return false;
  return s.pp == 1 || fixed.system == nullptr ||
         can_cut(*fixed.system, cut_sizes(workload), stage_layers_of(workload, s));
}

SearchSpace search_space(const Workload& workload, const FixedAxes& fixed) {
  return SpaceBuilder(workload, fixed).build();
}

int64_t Variants::count() const {
  return static_cast<int64_t>(schedules.size() * shardings.size()) *
         (recomputations() + stage_choices);
}

Variants variants_of(const Workload& workload, const Strategy& group, const FixedAxes& fixed) {
  Variants variants;
  variants.schedules = schedules_of(workload, group, fixed);
  variants.shardings = shardings_of(workload, group, fixed);
  variants.none = is_recompute_free(fixed, RecomputeWay::kNone);
  // Fused attention keeps nothing that selective recomputation could give back.
  variants.selective = workload.attention == AttentionKind::kUnfused &&
                       is_recompute_free(fixed, RecomputeWay::kSelective);
  variants.full = is_recompute_free(fixed, RecomputeWay::kFull);
  variants.some = is_recompute_free(fixed, RecomputeWay::kSome);
  variants.recompute_layers = ceil_div(workload.model.layers, group.pp);
  // Equal layers and chosen ones: see stage_choice.h.
  variants.stage_choices = group.pp > 1 ? 2 : 0;
  return variants;
}

}  // namespace tessera
