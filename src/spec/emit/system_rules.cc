#include "spec/emit/system_rules.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/text/text.h"
#include "spec/emit/emit_parts.h"

namespace tessera {
namespace {

using P = PipelineKind;
using C = ContextKind;

constexpr std::array<P, 2> kMegatronSchedules = {P::k1F1B, P::kInterleaved};
constexpr std::array<P, 5> kTorchtitanSchedules = {P::kGPipe, P::k1F1B, P::kInterleaved, P::kZbV,
                                                   P::kDualPipeV};
constexpr std::array<P, 1> kDeepSpeedSchedules = {P::k1F1B};
constexpr std::array<P, 2> kNanotronSchedules = {P::k1F1B, P::kGPipe};
constexpr std::array<int64_t, 4> kAnyZero = {0, 1, 2, 3};
constexpr std::array<int64_t, 2> kNoneOrAll = {0, 3};
constexpr std::array<int64_t, 2> kNoneOrStates = {0, 1};
constexpr std::array<int64_t, 1> kOnlyAll = {3};
constexpr std::array<C, 3> kAnyContext = {C::kRing, C::kAllGather, C::kUlysses};
constexpr std::array<C, 2> kRotations = {C::kRing, C::kAllGather};
constexpr std::array<C, 1> kOnlyAllGather = {C::kAllGather};
constexpr std::array<C, 1> kOnlyUlysses = {C::kUlysses};

bool is_nothing(const RecomputeChoice& all) {
  return all.blocks == 0 && !all.norms && !all.activations && !all.attention;
}

bool none_or_layers(const RecomputeChoice& all) { return is_nothing(all) || all.blocks == 1; }
bool none_or_blocks(const RecomputeChoice& all) { return is_nothing(all) || all.blocks > 0; }
// Activation functions alone are no module of its selective recomputation.
bool any_but_activations(const RecomputeChoice& all) { return all.blocks > 0 || !all.activations; }

// As nanotron's models/base.py cuts: blocks go to a stage until the arithmetic so far has passed
// its share.
std::vector<int64_t> nanotron_stages(const CutSizes& sizes, int64_t stages) {
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  const double layer = 4 * number(sizes.hidden) * number(sizes.hidden) +
                       3 * number(sizes.ffn) * number(sizes.hidden);
  const double all = layer * number(sizes.layers) + number(sizes.vocab) * number(sizes.hidden);
  std::vector<int64_t> cut(static_cast<size_t>(stages), 0);
  size_t stage = 0;
  for (int64_t i = 1; i <= sizes.layers; ++i) {
    ++cut[stage];
    const double share = all * (static_cast<double>(stage + 1) / number(stages));
    if (layer * number(i) > share && stage + 1 < cut.size()) ++stage;
  }
  return cut;
}

constexpr std::array kAnyLearningRate = {LrSchedule::kConstant, LrSchedule::kLinear,
                                         LrSchedule::kCosine, LrSchedule::kWsd,
                                         LrSchedule::kInverseSqrt};
constexpr std::array kFallingAtTheEnd = {LrSchedule::kLinear, LrSchedule::kCosine,
                                         LrSchedule::kWsd};
constexpr std::array kLinearOrCosine = {LrSchedule::kLinear, LrSchedule::kCosine};
constexpr std::array kOnlyCosine = {LrSchedule::kCosine};

constexpr SystemRules kSystems[] = {
    {.name = "megatron",
     .title = "Megatron-LM",
     .schedules = kMegatronSchedules,
     .zero = kAnyZero,
     .zero_with_pp = kAnyZero,
     .zero_within_fsdp = kAnyZero,
     .context = kAnyContext,
     .recompute = any_but_activations,
     .recompute_names = "none, norms, full or every-K",
     .learning_rates = kAnyLearningRate},
    {.name = "torchtitan",
     .title = "torchtitan",
     .schedules = kTorchtitanSchedules,
     .zero = kNoneOrAll,
     .zero_with_pp = kNoneOrAll,
     .zero_within_fsdp = kAnyZero,
     .context = kRotations,
     .sequence = SequenceRule::kAlwaysWithTp,
     .stages = StageRule::kFewerAtTheEnds,
     .recompute = none_or_layers,
     .recompute_names = "none or full",
     .learning_rates = kFallingAtTheEnd,
     .zero_note = "it shards all or nothing: ",
     .stages_note = "only the first and the last stage can have fewer: "},
    {.name = "deepspeed",
     .title = "DeepSpeed",
     .schedules = kDeepSpeedSchedules,
     .zero = kAnyZero,
     .zero_with_pp = kNoneOrStates,
     .zero_within_fsdp = kOnlyAll,
     .context = kOnlyUlysses,
     .sequence = SequenceRule::kNever,
     .stages = StageRule::kEqual,
     .experts = false,
     .recompute = none_or_blocks,
     .recompute_names = "none, full or every-K",
     .learning_rates = kOnlyCosine,
     .stages_note = "they are an argument of its PipelineModule: ",
     .experts_note = "it is an argument of its MoE layer: "},
    {.name = "nanotron",
     .title = "nanotron",
     .schedules = kNanotronSchedules,
     .zero = kNoneOrStates,
     .zero_with_pp = kNoneOrStates,
     .context = kOnlyAllGather,
     .stages = StageRule::kOwn,
     .own_stages = nanotron_stages,
     .tp_above_kv_heads = false,
     .recompute = none_or_layers,
     .recompute_names = "none or full",
     .learning_rates = kLinearOrCosine},
};

template <typename Values, typename Value>
bool has(const Values& values, const Value& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// "1f1b, interleaved or zb-v".
template <typename Values>
std::string one_of(const Values& values) {
  std::vector<std::string> names;
  for (const auto& value : values) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, int64_t>) {
      names.push_back(std::to_string(value));
    } else {
      names.emplace_back(name_of(value));
    }
  }
  if (names.size() < 2) return fmt::format("{}", fmt::join(names, ""));
  const std::string last = names.back();
  names.pop_back();
  return fmt::format("{} or {}", fmt::join(names, ", "), last);
}

void refuse_pipeline(const SystemRules& rules, const RunSpec& spec, Inexpressible& missing) {
  const ParallelSpec& p = spec.parallel;
  const std::optional<PipelineKind> kind = p.schedule.kind();
  if (!kind || !has(rules.schedules, *kind)) {
    missing.add(fmt::format("parallel.schedule = \"{}\"", p.schedule.text()),
                "use " + one_of(rules.schedules));
  }
  if (has(rules.zero, p.zero) && !has(rules.zero_with_pp, p.zero)) {
    missing.add(fmt::format("parallel.zero = {} with pp", p.zero),
                "use " + one_of(rules.zero_with_pp));
  }
  const ModelSpec& m = spec.model;
  const CutSizes sizes{m.layers, m.hidden, m.ffn, m.vocab};
  if (can_cut(rules, sizes, p.stage_layers)) return;
  const std::string instead =
      rules.own_stages == nullptr
          ? std::string(rules.stages_note) + equal_stages_advice(spec)
          : fmt::format("it makes its own: use --set parallel.stage_layers={}",
                        fmt::join(rules.own_stages(sizes, p.pp), "+"));
  missing.add(fmt::format("parallel.stage_layers = {}", fmt::join(p.stage_layers, "+")), instead);
}

void refuse_sharding(const SystemRules& rules, const RunSpec& spec, Inexpressible& missing) {
  const ParallelSpec& p = spec.parallel;
  if (!has(rules.zero, p.zero)) {
    missing.add(fmt::format("parallel.zero = {}", p.zero),
                fmt::format("{}use {}", rules.zero_note, one_of(rules.zero)));
  } else if (is_hybrid_sharded(p) && !has(rules.zero_within_fsdp, p.zero)) {
    const std::string other =
        rules.zero_within_fsdp.empty()
            ? ""
            : fmt::format("use zero = {}, or ", one_of(rules.zero_within_fsdp));
    missing.add(fmt::format("ZeRO-{} within {} ranks of {}", p.zero, p.fsdp, p.replicas()),
                other + "shard over all with dp = 1 or fsdp = 1");
  }
}

void refuse_optimizer(const SystemRules& rules, const RunSpec& spec, Inexpressible& missing) {
  const OptimizerSpec& o = spec.optimizer;
  if (o.kind != OptimizerKind::kAdamW) {
    missing.add(fmt::format("optimizer.kind = \"{}\"", name_of(o.kind)), "use adamw");
  }
  if (!has(rules.learning_rates, o.schedule)) {
    missing.add(fmt::format("optimizer.schedule = \"{}\"", name_of(o.schedule)),
                "use " + one_of(rules.learning_rates));
  }
  if (o.weight_decay_on != DecayOn::kMatrices || !o.weight_decay_also.empty() ||
      !o.weight_decay_not.empty()) {
    missing.add("which weights decay (optimizer.weight_decay_on, _also, _not)", "leave these out");
  }
  if (spec.train.lanes > 0) {
    missing.add(fmt::format("train.lanes = {}", spec.train.lanes), "use lanes = 0");
  }
  if (spec.train.skip_spikes) missing.add("train.skip_spikes = true", "use false");
}

}  // namespace

std::span<const SystemRules> system_rules() { return kSystems; }

const SystemRules& rules_of(std::string_view system) {
  std::vector<std::string_view> names;
  for (const SystemRules& rules : kSystems) {
    if (rules.name == system) return rules;
    names.push_back(rules.name);
  }
  throw ConfigError(fmt::format("unknown system {}; {}", in_quotes(system),
                                suggestion(system, names, "systems")));
}

std::string system_names() {
  std::vector<std::string_view> names;
  for (const SystemRules& rules : kSystems) names.push_back(rules.name);
  return fmt::format("{}", fmt::join(names, "|"));
}

bool can_cut(const SystemRules& rules, const CutSizes& sizes, std::span<const int64_t> layers) {
  if (rules.stages == StageRule::kAny || layers.size() < 2) return true;
  if (rules.stages == StageRule::kOwn) {
    const std::vector<int64_t> own = rules.own_stages(sizes, std::ssize(layers));
    return std::equal(own.begin(), own.end(), layers.begin(), layers.end());
  }
  const int64_t most = *std::max_element(layers.begin(), layers.end());
  const bool ends_too = rules.stages == StageRule::kEqual;
  const auto inner = ends_too ? layers : layers.subspan(1, layers.size() - 2);
  return std::all_of(inner.begin(), inner.end(), [&](int64_t n) { return n == most; });
}

bool can_recompute(const SystemRules& rules, const std::optional<RecomputeChoice>& all) {
  return all.has_value() && rules.recompute(*all);
}

void add_refusals(const SystemRules& rules, const RunSpec& spec, Inexpressible& missing) {
  const ParallelSpec& p = spec.parallel;
  if (p.pp > 1) refuse_pipeline(rules, spec, missing);
  refuse_sharding(rules, spec, missing);
  refuse_optimizer(rules, spec, missing);
  if (p.cp > 1 && rules.context.empty()) {
    missing.add(fmt::format("parallel.cp = {}", p.cp), "use cp = 1");
  } else if (p.cp > 1 && !has(rules.context, p.cp_kind)) {
    missing.add(fmt::format("parallel.cp_kind = \"{}\"", name_of(p.cp_kind)),
                "use " + one_of(rules.context));
  }
  if (rules.sequence == SequenceRule::kAlwaysWithTp && p.tp > 1 && !p.sequence_parallel) {
    missing.add("parallel.sequence_parallel = false with tp", "use true");
  }
  if (rules.sequence == SequenceRule::kNever && p.sequence_parallel) {
    missing.add("parallel.sequence_parallel = true", "use false");
  }
  if (!rules.tp_above_kv_heads && p.tp > spec.model.kv_heads) {
    missing.add(fmt::format("tp = {} with {} key and value heads", p.tp, spec.model.kv_heads),
                fmt::format("use tp up to {}", spec.model.kv_heads));
  }
  if (p.ep > 1 && !rules.experts) {
    missing.add(fmt::format("parallel.ep = {}", p.ep),
                fmt::format("{}use ep = 1", rules.experts_note));
  }
  if (!can_recompute(rules, recomputation_of_all(spec))) {
    missing.add(fmt::format("parallel.recompute = \"{}\"", p.recompute),
                fmt::format("use {}", rules.recompute_names));
  }
}

}  // namespace tessera
