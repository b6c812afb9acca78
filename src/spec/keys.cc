#include "spec/keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace tessera {
namespace {

using S = RunSpec;
using enum Thousand;

constexpr Range kAny{0};
constexpr Range kPositive{1};
constexpr Range kAxis{1, kMaxAxis};
constexpr Range kZeroStage{0, 3};
constexpr Range kAboveZero{.min = 0, .open_min = true};
constexpr Range kBelowOne{.min = 0, .max = 1, .open_max = true};
constexpr Range kLossScale{0, 32768};  // a logit's gradient, at most this, must fit f16
constexpr Range kTokenOrNone{-1, 2147483647};
constexpr Range kSeconds{0.1, 1e6};
constexpr Range kMinutes{0, 1e6};
constexpr Range kGibibytes{0, 1e9};  // the bytes fit in int64_t

constexpr std::array<std::string_view, 5> kDTypes = {"f32", "f64", "bf16", "f16", "fp8"};
constexpr std::array<std::string_view, 2> kGradients = {"f32", "bf16"};

constexpr Key kKeys[] = {
    {"model", "preset", [](S& s) -> Field { return &s.model.preset; }},
    {"model", "hf", [](S& s) -> Field { return &s.model.hf; }},
    {"model", "family", [](S& s) -> Field { return &s.model.family; }, kAny, kNamesOf<ModelFamily>},
    {"model", "layers", [](S& s) -> Field { return &s.model.layers; }, kPositive, {}, true},
    {"model", "hidden", [](S& s) -> Field { return &s.model.hidden; }, kPositive, {}, true},
    {"model", "ffn", [](S& s) -> Field { return &s.model.ffn; }, kPositive, {}, true},
    {"model", "heads", [](S& s) -> Field { return &s.model.heads; }, kPositive, {}, true},
    {"model", "kv_heads", [](S& s) -> Field { return &s.model.kv_heads; }, kAny},
    {"model", "head_dim", [](S& s) -> Field { return &s.model.head_dim; }, kAny},
    {"model", "vocab", [](S& s) -> Field { return &s.model.vocab; }, kPositive, {}, true},
    {"model", "tied", [](S& s) -> Field { return &s.model.tied; }},
    {"model", "norm_eps", [](S& s) -> Field { return &s.model.norm_eps; }, kAboveZero},
    {"model", "init_std", [](S& s) -> Field { return &s.model.init_std; }, kAny},
    {"model", "rope_theta", [](S& s) -> Field { return &s.model.rope.theta; }, kAboveZero},
    {"model", "norm", [](S& s) -> Field { return &s.model.norm; }, kAny, kNamesOf<NormKind>},
    {"model", "mlp", [](S& s) -> Field { return &s.model.mlp; }, kAny, kNamesOf<MlpKind>},
    {"model", "positions", [](S& s) -> Field { return &s.model.positions; }, kAny,
     kNamesOf<PositionKind>},
    {"model",
     "max_positions",
     [](S& s) -> Field { return &s.model.max_positions; },
     kAny,
     {},
     false,
     kBinary},
    {"model", "attention_bias", [](S& s) -> Field { return &s.model.attention_bias; }, kAny,
     kNamesOf<AttentionBias>},
    {"model", "mlp_bias", [](S& s) -> Field { return &s.model.mlp_bias; }},
    {"model", "qk_norm", [](S& s) -> Field { return &s.model.qk_norm; }},
    {"model",
     "sliding_window",
     [](S& s) -> Field { return &s.model.sliding_window; },
     kAny,
     {},
     false,
     kBinary},
    {"model.rope_scaling", "type", [](S& s) -> Field { return &s.model.rope.scaling; }, kAny,
     kNamesOf<RopeScaling>},
    {"model.rope_scaling", "factor", [](S& s) -> Field { return &s.model.rope.factor; }, kPositive},
    {"model.rope_scaling", "low_freq_factor",
     [](S& s) -> Field { return &s.model.rope.low_freq_factor; }, kAboveZero},
    {"model.rope_scaling", "high_freq_factor",
     [](S& s) -> Field { return &s.model.rope.high_freq_factor; }, kAboveZero},
    {"model.rope_scaling",
     "original_max_position",
     [](S& s) -> Field { return &s.model.rope.original_max_position; },
     kPositive,
     {},
     false,
     kBinary},
    {"model", "experts", [](S& s) -> Field { return &s.model.experts; }, Range{0, 65536}},
    {"model", "experts_per_token", [](S& s) -> Field { return &s.model.experts_per_token; },
     kPositive},
    {"model", "moe_ffn", [](S& s) -> Field { return &s.model.moe_ffn; }, kAny},
    {"model", "router_aux_coef", [](S& s) -> Field { return &s.model.router_aux_coef; }, kAny},

    {"model", "kv_rank", [](S& s) -> Field { return &s.model.kv_rank; }, kAny},
    {"model", "query_rank", [](S& s) -> Field { return &s.model.query_rank; }, kAny},
    {"model", "rope_head_dim", [](S& s) -> Field { return &s.model.rope_head_dim; }, kAny},
    {"model", "value_head_dim", [](S& s) -> Field { return &s.model.value_head_dim; }, kAny},
    {"model", "shared_ffn", [](S& s) -> Field { return &s.model.shared_ffn; }, kAny},
    {"model", "dense_layers", [](S& s) -> Field { return &s.model.dense_layers; }, kAny},
    {"model", "mtp_layers", [](S& s) -> Field { return &s.model.mtp_layers; }, kAny},
    {"model", "parallel_block", [](S& s) -> Field { return &s.model.parallel_block; }},
    {"model", "embedding_norm", [](S& s) -> Field { return &s.model.embedding_norm; }},
    {"model", "dropout", [](S& s) -> Field { return &s.model.dropout; }, kBelowOne},
    {"model", "attention_dropout", [](S& s) -> Field { return &s.model.attention_dropout; },
     kBelowOne},

    {"cluster", "memory_gib", [](S& s) -> Field { return &s.cluster.memory_gib; }, kGibibytes},

    {"parallel", "pp", [](S& s) -> Field { return &s.parallel.pp; }, kAxis},
    {"parallel", "dp", [](S& s) -> Field { return &s.parallel.dp; }, kAxis},
    {"parallel", "fsdp", [](S& s) -> Field { return &s.parallel.fsdp; }, kAxis},
    {"parallel", "cp", [](S& s) -> Field { return &s.parallel.cp; }, kAxis},
    {"parallel", "tp", [](S& s) -> Field { return &s.parallel.tp; }, kAxis},
    {"parallel", "zero", [](S& s) -> Field { return &s.parallel.zero; }, kZeroStage},
    {"parallel", "sequence_parallel", [](S& s) -> Field { return &s.parallel.sequence_parallel; }},
    {"parallel", "bucket_mb", [](S& s) -> Field { return &s.parallel.bucket_mb; }, kPositive},
    {"parallel", "grad_reduce", [](S& s) -> Field { return &s.parallel.grad_reduce; }, kAny,
     kNamesOf<GradReduce>},
    {"parallel", "cp_kind", [](S& s) -> Field { return &s.parallel.cp_kind; }, kAny,
     kNamesOf<ContextKind>},
    {"parallel", "overlap", [](S& s) -> Field { return &s.parallel.overlap; }},
    {"parallel", "prefetch", [](S& s) -> Field { return &s.parallel.prefetch; }, kAny},
    {"parallel", "unit_blocks", [](S& s) -> Field { return &s.parallel.unit_blocks; }, kPositive},
    {"parallel", "release_after_forward",
     [](S& s) -> Field { return &s.parallel.release_after_forward; }},
    {"parallel", "recompute", [](S& s) -> Field { return &s.parallel.recompute; }},

    {"parallel", "schedule", [](S& s) -> Field { return &s.parallel.schedule; }},
    {"parallel", "schedule_csv", [](S& s) -> Field { return &s.parallel.schedule_csv; }},
    {"parallel", "virtual_stages", [](S& s) -> Field { return &s.parallel.virtual_stages; },
     Range{0, kMaxAxis}},
    {"parallel", "stage_layers", [](S& s) -> Field { return &s.parallel.stage_layers; },
     Range{0, 100'000}},
    {"parallel", "schedule_group", [](S& s) -> Field { return &s.parallel.schedule_group; }, kAny},
    {"parallel", "ep", [](S& s) -> Field { return &s.parallel.ep; }, kAxis},
    {"parallel", "moe_capacity", [](S& s) -> Field { return &s.parallel.moe_capacity; }, kAny},

    {"train",
     "seq_len",
     [](S& s) -> Field { return &s.train.seq_len; },
     kPositive,
     {},
     false,
     kBinary},
    {"train", "micro_batch", [](S& s) -> Field { return &s.train.micro_batch; }, kPositive},
    {"train", "global_batch", [](S& s) -> Field { return &s.train.global_batch; }, kAny},
    {"train", "lanes", [](S& s) -> Field { return &s.train.lanes; }, Range{0, kMaxAxis}},
    {"train", "redundancy", [](S& s) -> Field { return &s.train.redundancy; }, Range{1, 2}},
    {"train", "steps", [](S& s) -> Field { return &s.train.steps; }, kPositive},
    {"train", "dtype",
     [](S& s) -> Field {
       return TrainType{&s.train.dtype, &s.train.fp8.asked};
     },
     kAny, kDTypes},
    {"train", "fp8_recipe", [](S& s) -> Field { return &s.train.fp8.recipe; }, kAny,
     kNamesOf<Fp8Recipe>},
    {"train", "fp8_block", [](S& s) -> Field { return &s.train.fp8.block; }, Range{1, 1024}},
    {"train", "fp8_bf16_first", [](S& s) -> Field { return &s.train.fp8.bf16_first; }},
    {"train", "fp8_bf16_last", [](S& s) -> Field { return &s.train.fp8.bf16_last; }},
    {"train", "gradients", [](S& s) -> Field { return &s.train.gradients; }, kAny, kGradients},
    {"train", "seed", [](S& s) -> Field { return &s.train.seed; }},
    {"train", "device", [](S& s) -> Field { return &s.train.device; }, kAny, kNamesOf<TrainDevice>},
    {"train", "deterministic", [](S& s) -> Field { return &s.train.deterministic; }},
    {"train", "cuda_graph", [](S& s) -> Field { return &s.train.cuda_graph; }, kAny,
     kNamesOf<CudaGraph>},
    {"train", "mark_every", [](S& s) -> Field { return &s.train.mark_every; }, Range{0, 1'000'000}},
    {"train", "threads", [](S& s) -> Field { return &s.train.threads; }, Range{0, 4096}},
    {"train",
     "loss_chunk",
     [](S& s) -> Field { return &s.train.loss_chunk; },
     kPositive,
     {},
     false,
     kBinary},
    {"train", "loss_scale", [](S& s) -> Field { return &s.train.loss_scale; }, kLossScale},
    {"train", "loss_scale_interval", [](S& s) -> Field { return &s.train.loss_scale_interval; },
     kPositive},
    {"train", "loss_scale_hysteresis", [](S& s) -> Field { return &s.train.loss_scale_hysteresis; },
     kPositive},
    {"train", "aux_group", [](S& s) -> Field { return &s.train.aux_group; }, kPositive},
    {"train", "comm_timeout", [](S& s) -> Field { return &s.train.comm_timeout; }, kSeconds},

    {"train", "skip_spikes", [](S& s) -> Field { return &s.train.skip_spikes; }},
    {"train", "spike_norm", [](S& s) -> Field { return &s.train.spike_norm; }, kAny},
    {"train", "spike_loss", [](S& s) -> Field { return &s.train.spike_loss; }, kAny},
    {"train", "spike_window", [](S& s) -> Field { return &s.train.spike_window; }, kPositive},
    {"train", "spike_limit", [](S& s) -> Field { return &s.train.spike_limit; }, kPositive},

    {"optimizer", "kind", [](S& s) -> Field { return &s.optimizer.kind; }, kAny,
     kNamesOf<OptimizerKind>},
    {"optimizer", "lr", [](S& s) -> Field { return &s.optimizer.lr; }, kAboveZero},
    {"optimizer", "warmup", [](S& s) -> Field { return &s.optimizer.warmup; }, kAny},
    {"optimizer", "schedule", [](S& s) -> Field { return &s.optimizer.schedule; }, kAny,
     kNamesOf<LrSchedule>},
    {"optimizer", "decay_steps", [](S& s) -> Field { return &s.optimizer.decay_steps; }, kAny},
    {"optimizer", "decay_share", [](S& s) -> Field { return &s.optimizer.decay_share; },
     Range{0, 1}},
    {"optimizer", "min_lr", [](S& s) -> Field { return &s.optimizer.min_lr; }, kAny},
    {"optimizer", "betas",
     [](S& s) -> Field { return Betas{&s.optimizer.beta1, &s.optimizer.beta2}; }, kBelowOne},
    {"optimizer", "eps", [](S& s) -> Field { return &s.optimizer.eps; }, kAboveZero},
    {"optimizer", "momentum", [](S& s) -> Field { return &s.optimizer.momentum; }, kBelowOne},
    {"optimizer", "nesterov", [](S& s) -> Field { return &s.optimizer.nesterov; }},
    {"optimizer", "weight_decay", [](S& s) -> Field { return &s.optimizer.weight_decay; }, kAny},
    {"optimizer", "weight_decay_on", [](S& s) -> Field { return &s.optimizer.weight_decay_on; },
     kAny, kNamesOf<DecayOn>},
    {"optimizer", "weight_decay_also",
     [](S& s) -> Field { return &s.optimizer.weight_decay_also; }},
    {"optimizer", "weight_decay_not", [](S& s) -> Field { return &s.optimizer.weight_decay_not; }},
    {"optimizer", "clip", [](S& s) -> Field { return &s.optimizer.clip; }, kAny},

    {"data", "path", [](S& s) -> Field { return &s.data.path; }},
    {"data", "document_mask", [](S& s) -> Field { return &s.data.document_mask; }},
    {"data", "end_token", [](S& s) -> Field { return &s.data.end_token; }, kTokenOrNone},
    {"data", "train", [](S& s) -> Field { return &s.data.train; }},
    {"data", "valid", [](S& s) -> Field { return &s.data.valid; }},
    {"data", "mix", [](S& s) -> Field { return &s.data.mix; }, kAboveZero},
    {"data", "chats", [](S& s) -> Field { return &s.data.chats; }},
    {"data", "tokenizer", [](S& s) -> Field { return &s.data.tokenizer; }},
    {"data.synth", "seed", [](S& s) -> Field { return &s.data.synth_seed; }},
    {"data.synth", "bytes", [](S& s) -> Field { return &s.data.synth_bytes; }, kPositive},

    {"eval", "every", [](S& s) -> Field { return &s.eval.every; }, kAny},
    {"eval", "batches", [](S& s) -> Field { return &s.eval.batches; }, kAny},

    {"checkpoint", "every", [](S& s) -> Field { return &s.checkpoint.every; }, kAny},
    {"checkpoint", "every_minutes", [](S& s) -> Field { return &s.checkpoint.every_minutes; },
     kMinutes},
    {"checkpoint", "keep", [](S& s) -> Field { return &s.checkpoint.keep; }, kPositive},
    {"checkpoint", "keep_every", [](S& s) -> Field { return &s.checkpoint.keep_every; }, kAny},
    {"checkpoint", "async", [](S& s) -> Field { return &s.checkpoint.async; }},
    {"checkpoint", "memory_every", [](S& s) -> Field { return &s.checkpoint.memory_every; }, kAny},
    {"checkpoint", "memory_gib", [](S& s) -> Field { return &s.checkpoint.memory_gib; },
     kGibibytes},
    {"checkpoint", "dir", [](S& s) -> Field { return &s.checkpoint.dir; }},

    {"logging", "run_dir", [](S& s) -> Field { return &s.logging.run_dir; }},
    {"logging", "every", [](S& s) -> Field { return &s.logging.every; }, kPositive},
    {"logging", "tensorboard", [](S& s) -> Field { return &s.logging.tensorboard; }},
};

constexpr std::pair<std::string_view, std::string_view> kFlagDefaults[] = {{"cluster", "name"}};

// What follows "section." in `path`, up to the next dot; empty if `path` is not inside it.
std::string_view child_of(std::string_view path, std::string_view section) {
  if (!section.empty()) {
    if (!path.starts_with(section) || path.size() == section.size()) return {};
    if (path[section.size()] != '.') return {};
    path.remove_prefix(section.size() + 1);
  }
  return path.substr(0, path.find('.'));
}

}  // namespace

bool Range::contains(double value) const {
  return (open_min ? value > min : value >= min) && (open_max ? value < max : value <= max);
}

std::string Range::describe() const {
  if (!open_min && !open_max) return fmt::format("from {} to {}", min, max);
  return fmt::format("{} {} and {} {}", open_min ? "above" : "at least", min,
                     open_max ? "below" : "at most", max);
}

std::span<const Key> run_keys() { return kKeys; }

const Key* find_key(std::string_view section, std::string_view name) {
  const auto* key = std::find_if(std::begin(kKeys), std::end(kKeys), [&](const Key& k) {
    return k.section == section && k.name == name;
  });
  return key == std::end(kKeys) ? nullptr : key;
}

bool is_section(std::string_view section) {
  return std::any_of(std::begin(kKeys), std::end(kKeys),
                     [&](const Key& key) { return key.section == section; });
}

bool is_flag_default(std::string_view section, std::string_view name) {
  return std::find(std::begin(kFlagDefaults), std::end(kFlagDefaults), std::pair{section, name}) !=
         std::end(kFlagDefaults);
}

std::vector<std::string_view> names_in(std::string_view section) {
  std::vector<std::string_view> names;
  for (const auto& [of, name] : kFlagDefaults) {
    if (of == section) names.push_back(name);
  }
  for (const Key& key : kKeys) {
    const std::string_view name =
        key.section == section ? key.name : child_of(key.section, section);
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(name);
    }
  }
  return names;
}

std::string join_path(std::string_view section, std::string_view name) {
  return section.empty() ? std::string(name) : fmt::format("{}.{}", section, name);
}

}  // namespace tessera
