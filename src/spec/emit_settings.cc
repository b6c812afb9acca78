#include "spec/emit_settings.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "spec/recompute.h"
#include "spec/validate.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, 3> kSystems = {"megatron", "torchtitan", "deepspeed"};

// What the systems can be told about recomputation.
enum class Granularity { kNone, kSelective, kFull };
struct Recomputation {
  Granularity granularity = Granularity::kNone;
  int64_t blocks = 1;  // of a run that keeps one input
  bool exact = true;
};

Recomputation recomputation_of(const RunSpec& spec) {
  const std::string& text = spec.parallel.recompute;
  const std::vector<RecomputePart> parts =
      parse_recompute(recompute_of_stage(text, 0), spec.model.layers);
  const RecomputeChoice& choice = parts.back().choice;
  Recomputation result;
  result.exact = parts.size() == 1 && text.find('/') == text.npos;
  if (choice.blocks > 0) {
    result.granularity = Granularity::kFull;
    result.blocks = choice.blocks;
  } else if (choice.attention) {
    result.granularity = Granularity::kSelective;
  } else if (choice.norms || choice.activations) {
    result.exact = false;
  }
  return result;
}

// Whether every stage has as many layers as the others.
bool even_stages(const ParallelSpec& parallel) {
  for (const int64_t layers : parallel.stage_layers) {
    if (layers != parallel.stage_layers.front()) return false;
  }
  return true;
}

class Megatron {
 public:
  explicit Megatron(const RunSpec& spec) : spec_(spec) {}

  std::string str() {
    add_model();
    add_split();
    add_training();
    std::string text = "# Megatron-LM (pretrain_gpt.py)\n" + flags_;
    for (const std::string& note : notes_) text += "# not expressed: " + note + "\n";
    return text;
  }

 private:
  void flag(std::string_view name) { flags_ += fmt::format("--{}\n", name); }
  template <typename T>
  void flag(std::string_view name, const T& value) {
    flags_ += fmt::format("--{} {}\n", name, value);
  }
  void add_model();
  void add_split();
  void add_sharding();
  void add_recompute();
  void add_training();

  const RunSpec& spec_;
  std::string flags_;
  std::vector<std::string> notes_;
};

void Megatron::add_model() {
  const ModelSpec& m = spec_.model;
  flag("num-layers", m.layers);
  flag("hidden-size", m.hidden);
  flag("ffn-hidden-size", m.ffn);
  flag("num-attention-heads", m.heads);
  if (m.kv_heads != m.heads) {
    flag("group-query-attention");
    flag("num-query-groups", m.kv_heads);
  }
  flag("kv-channels", m.head_dim);
  flag("vocab-size", m.vocab);
  flag("max-position-embeddings", std::max(m.max_positions, spec_.train.seq_len));
  flag("normalization", m.norm == "rms" ? "RMSNorm" : "LayerNorm");
  flag("norm-epsilon", m.norm_eps);
  if (m.mlp == "swiglu") flag("swiglu");
  flag("position-embedding-type", m.positions == "rope" ? "rope" : "learned_absolute");
  if (m.positions == "rope") flag("rotary-base", static_cast<int64_t>(m.rope.theta));
  if (!m.tied) flag("untie-embeddings-and-output-weights");
  if (!m.mlp_bias) flag("disable-bias-linear");
  if (m.attention_bias == "qkv") flag("add-qkv-bias");
  if (m.qk_norm) flag("qk-layernorm");
  if (m.sliding_window > 0) notes_.push_back("a sliding window in attention");
  flag("attention-dropout", m.attention_dropout);
  flag("hidden-dropout", m.dropout);
  if (m.experts == 0) return;
  flag("num-experts", m.experts);
  flag("moe-router-topk", m.experts_per_token);
  flag("moe-ffn-hidden-size", m.moe_ffn);
  flag("moe-aux-loss-coeff", m.router_aux_coef);
}

void Megatron::add_sharding() {
  const ParallelSpec& p = spec_.parallel;
  if (p.zero == 1) flag("use-distributed-optimizer");
  if (p.zero >= 2) {
    flag("use-custom-fsdp");
    flag("data-parallel-sharding-strategy", p.zero == 2 ? "optim_grads" : "optim_grads_params");
  }
  if (p.overlap && p.replicas() > 1) {
    flag("overlap-grad-reduce");
    if (p.zero >= 1) flag("overlap-param-gather");
  }
  if (p.zero > 0 && p.fsdp > 1 && p.dp > 1) {
    flag("num-distributed-optimizer-instances", p.dp);
  }
}

void Megatron::add_split() {
  const ParallelSpec& p = spec_.parallel;
  flag("tensor-model-parallel-size", p.tp);
  flag("pipeline-model-parallel-size", p.pp);
  flag("context-parallel-size", p.cp);
  if (p.cp > 1) {
    flag("cp-comm-type",
         p.cp_kind == "ring" ? "p2p" : (p.cp_kind == "allgather" ? "all_gather" : "a2a"));
  }
  if (spec_.model.experts > 0) flag("expert-model-parallel-size", p.ep);
  if (p.sequence_parallel) flag("sequence-parallel");
  if (p.pp > 1 && p.virtual_stages > 1) {
    flag("num-virtual-stages-per-pipeline-rank", p.virtual_stages);
  }
  if (p.pp > 1 && p.schedule != "1f1b" && p.schedule != "interleaved") {
    notes_.push_back(fmt::format("schedule {} (it will run 1F1B)", p.schedule));
  }
  if (!even_stages(p)) {
    flag("decoder-first-pipeline-num-layers", p.stage_layers.front());
    flag("decoder-last-pipeline-num-layers", p.stage_layers.back());
    notes_.push_back("stage_layers between the first and the last stage");
  }
  add_sharding();
  add_recompute();
}

void Megatron::add_recompute() {
  const Recomputation r = recomputation_of(spec_);
  if (r.granularity == Granularity::kFull) {
    flag("recompute-granularity", "full");
    flag("recompute-method", "uniform");
    flag("recompute-num-layers", r.blocks);
  } else if (r.granularity == Granularity::kSelective) {
    flag("recompute-granularity", "selective");
  }
  if (!r.exact) notes_.push_back(fmt::format("recompute = \"{}\"", spec_.parallel.recompute));
}

void Megatron::add_training() {
  const TrainSpec& t = spec_.train;
  flag("seq-length", t.seq_len);
  flag("micro-batch-size", t.micro_batch);
  flag("global-batch-size", t.global_batch);
  flag("train-iters", t.steps);
  if (t.dtype == DType::kBF16) flag("bf16");
  if (t.dtype == DType::kF16) flag("fp16");
  if (t.dtype == DType::kBF16 && t.gradients == "bf16") flag("grad-reduce-in-bf16");
  const OptimizerSpec& o = spec_.optimizer;
  flag("lr", o.lr);
  flag("min-lr", o.min_lr);
  flag("lr-decay-style", "cosine");
  flag("lr-warmup-iters", o.warmup);
  flag("adam-beta1", o.beta1);
  flag("adam-beta2", o.beta2);
  flag("adam-eps", o.eps);
  flag("weight-decay", o.weight_decay);
  flag("clip-grad", o.clip);
  flag("seed", t.seed);
}

// The names of torchtitan's pipeline schedules; empty: it has none of that kind.
std::string_view torchtitan_schedule(std::string_view schedule) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kNames = {
      {{"gpipe", "GPipe"},
       {"1f1b", "1F1B"},
       {"interleaved", "Interleaved1F1B"},
       {"zb-v", "ZBVZeroBubble"},
       {"dualpipe-v", "DualPipeV"}}};
  for (const auto& [ours, theirs] : kNames) {
    if (ours == schedule) return theirs;
  }
  return "";
}

std::string torchtitan(const RunSpec& spec) {
  const ParallelSpec& p = spec.parallel;
  const TrainSpec& t = spec.train;
  const Recomputation r = recomputation_of(spec);
  std::vector<std::string> notes;
  // It shards parameters or nothing.
  const bool shards = p.zero == 3;
  if (p.zero == 1 || p.zero == 2) notes.push_back(fmt::format("ZeRO-{}: use 0 or 3", p.zero));
  if (!r.exact) notes.push_back(fmt::format("recompute = \"{}\"", p.recompute));
  std::string text = fmt::format(
      "# torchtitan\n[model]\nname = \"{}\"\nflavor = \"{}\"\n\n[training]\nlocal_batch_size = "
      "{}\nglobal_batch_size = {}\nseq_len = {}\nsteps = {}\nmax_norm = {}\n\n",
      spec.model.family, spec.model.preset.empty() ? "custom" : spec.model.preset,
      p.pp > 1 ? t.micro_batch * accumulation(spec) : t.micro_batch, t.global_batch, t.seq_len,
      t.steps, spec.optimizer.clip);
  text += fmt::format(
      "[optimizer]\nname = \"AdamW\"\nlr = {}\nbeta1 = {}\nbeta2 = {}\neps = {}\nweight_decay = "
      "{}\n\n[lr_scheduler]\nwarmup_steps = {}\ndecay_type = \"cosine\"\n\n",
      spec.optimizer.lr, spec.optimizer.beta1, spec.optimizer.beta2, spec.optimizer.eps,
      spec.optimizer.weight_decay, spec.optimizer.warmup);
  const int64_t shard = !shards ? 1 : (p.fsdp > 1 ? p.fsdp : p.dp);
  text += fmt::format(
      "[parallelism]\ndata_parallel_replicate_degree = {}\ndata_parallel_shard_degree = "
      "{}\nfsdp_reshard_after_forward = \"{}\"\ntensor_parallel_degree = "
      "{}\ncontext_parallel_degree = {}\npipeline_parallel_degree = {}\n",
      p.replicas() / shard, shard, p.release_after_forward ? "always" : "never", p.tp, p.cp, p.pp);
  if (spec.model.experts > 0) text += fmt::format("expert_parallel_degree = {}\n", p.ep);
  if (p.pp > 1) {
    const std::string_view name = torchtitan_schedule(p.schedule);
    if (name.empty()) notes.push_back(fmt::format("schedule {} (1F1B is given)", p.schedule));
    text +=
        fmt::format("pipeline_parallel_schedule = \"{}\"\npipeline_parallel_microbatch_size = {}\n",
                    name.empty() ? "1F1B" : name, t.micro_batch);
  }
  constexpr std::array<std::string_view, 3> kModes = {"none", "selective", "full"};
  text += fmt::format("\n[activation_checkpoint]\nmode = \"{}\"\n",
                      kModes[static_cast<size_t>(r.granularity)]);
  for (const std::string& note : notes) text += "# not expressed: " + note + "\n";
  return text;
}

std::string deepspeed(const RunSpec& spec) {
  const ParallelSpec& p = spec.parallel;
  const TrainSpec& t = spec.train;
  const OptimizerSpec& o = spec.optimizer;
  nlohmann::ordered_json json;
  json["train_batch_size"] = t.global_batch;
  json["train_micro_batch_size_per_gpu"] = t.micro_batch;
  json["gradient_accumulation_steps"] = accumulation(spec);
  json["gradient_clipping"] = o.clip;
  json["optimizer"] = {{"type", "AdamW"},
                       {"params",
                        {{"lr", o.lr},
                         {"betas", {o.beta1, o.beta2}},
                         {"eps", o.eps},
                         {"weight_decay", o.weight_decay}}}};
  if (t.dtype == DType::kBF16) json["bf16"] = {{"enabled", true}};
  if (t.dtype == DType::kF16) json["fp16"] = {{"enabled", true}, {"loss_scale", t.loss_scale}};
  json["data_types"] = {{"grad_accum_dtype", t.gradients == "bf16" ? "bf16" : "fp32"}};
  json["zero_optimization"] = {{"stage", p.zero},
                               {"overlap_comm", p.overlap},
                               {"reduce_bucket_size", p.bucket_mb * 1024 * 1024 / 4}};
  if (p.zero == 3 && p.fsdp > 1 && p.dp > 1) {
    json["zero_optimization"]["zero_hpz_partition_size"] = p.fsdp;
  }
  if (p.tp > 1) json["tensor_parallel"] = {{"autotp_size", p.tp}};
  if (p.pp > 1) json["pipeline"] = {{"stages", p.pp}};
  if (p.cp > 1) json["sequence_parallel_size"] = p.cp;
  nlohmann::ordered_json missing = nlohmann::ordered_json::array();
  const Recomputation r = recomputation_of(spec);
  if (r.granularity == Granularity::kFull) {
    json["activation_checkpointing"] = {{"partition_activations", p.sequence_parallel},
                                        {"number_checkpoints", spec.model.layers / r.blocks}};
  } else if (p.recompute != "none") {
    missing.push_back("recompute = " + p.recompute);
  }
  if (p.cp > 1 && p.cp_kind != "ulysses") missing.push_back("cp_kind = " + p.cp_kind);
  if (p.pp > 1 && p.schedule != "1f1b") missing.push_back("schedule = " + p.schedule);
  if (p.pp > 1 && p.zero > 1) missing.push_back("ZeRO above 1 with a pipeline");
  if (p.sequence_parallel) missing.push_back("sequence_parallel");
  if (p.ep > 1) missing.push_back("ep: it is an argument of the MoE layer");
  if (!missing.empty()) json["not_expressed"] = std::move(missing);
  return json.dump(2) + "\n";
}

}  // namespace

std::span<const std::string_view> settings_systems() { return kSystems; }

std::string emit_settings(const RunSpec& spec, std::string_view system) {
  if (system == "megatron") return Megatron(spec).str();
  if (system == "torchtitan") return torchtitan(spec);
  if (system == "deepspeed") return deepspeed(spec);
  throw ConfigError(fmt::format("unknown system {}; {}", in_quotes(system),
                                suggestion(system, kSystems, "systems")));
}

}  // namespace tessera
