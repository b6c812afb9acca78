// Flags of Megatron-LM, as of megatron/training/arguments.py at commit d98e8a6 (August 2026), where
// some come from fields of megatron/core's configurations.
#include <algorithm>

#include "spec/emit/emit_parts.h"
#include "spec/emit/system_rules.h"
#include "spec/run_file/trainable.h"
#include "spec/run_file/validate_optimizer.h"

namespace tessera {
namespace {

std::string_view learning_rate_name(LrSchedule schedule) {
  if (schedule == LrSchedule::kWsd) return "WSD";
  if (schedule == LrSchedule::kInverseSqrt) return "inverse-square-root";
  return name_of(schedule);
}

class Megatron {
 public:
  explicit Megatron(const RunSpec& spec) : spec_(spec) {}

  std::string str() {
    add_model();
    add_experts();
    add_split();
    add_pipeline();
    add_sharding();
    add_recompute();
    add_training();
    add_refusals(rules_of("megatron"), spec_, missing_);
    missing_.refuse("Megatron-LM");
    return "# Megatron-LM (pretrain_gpt.py)\n" + flags_;
  }

 private:
  void flag(std::string_view name) { flags_ += fmt::format("--{}\n", name); }
  template <typename T>
  void flag(std::string_view name, const T& value) {
    flags_ += fmt::format("--{} {}\n", name, value);
  }
  void add_model();
  void add_experts();
  void add_split();
  void add_pipeline();
  void add_sharding();
  void add_recompute();
  void add_training();
  [[nodiscard]] std::string layout() const;

  const RunSpec& spec_;
  std::string flags_;
  Inexpressible missing_;
};

void Megatron::add_model() {
  const ModelSpec& m = spec_.model;
  if (const std::string choice = untrainable_choice(m); !choice.empty()) {
    missing_.add(choice, "only models that tessera trains are written");
  }
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
  flag("normalization", m.norm == NormKind::kRms ? "RMSNorm" : "LayerNorm");
  flag("norm-epsilon", m.norm_eps);
  if (m.mlp == MlpKind::kSwiglu) flag("swiglu");
  if (m.mlp == MlpKind::kRelu) missing_.add("model.mlp = \"relu\"", "use gelu or swiglu");
  flag("position-embedding-type", m.positions == PositionKind::kRope ? "rope" : "learned_absolute");
  if (m.positions == PositionKind::kRope) flag("rotary-base", static_cast<int64_t>(m.rope.theta));
  if (m.rope.scaling == RopeScaling::kLlama3) {
    flag("use-rope-scaling");
    flag("rope-scaling-factor", m.rope.factor);
  }
  if (!m.tied) flag("untie-embeddings-and-output-weights");
  if (!m.mlp_bias) flag("disable-bias-linear");
  if (m.attention_bias == AttentionBias::kQkv) flag("add-qkv-bias");
  if ((m.attention_bias == AttentionBias::kAll) != m.mlp_bias) {
    missing_.add(fmt::format("model.attention_bias = \"{}\" with model.mlp_bias = {}",
                             name_of(m.attention_bias), m.mlp_bias),
                 "biases are on all products, on queries, keys and values, or on none");
  }
  if (m.qk_norm) flag("qk-layernorm");
  if (m.sliding_window > 0) flag("window-size", fmt::format("{},0", m.sliding_window - 1));
  flag("attention-dropout", m.attention_dropout);
  flag("hidden-dropout", m.dropout);
}

void Megatron::add_experts() {
  const ModelSpec& m = spec_.model;
  if (m.experts == 0) return;
  flag("num-experts", m.experts);
  flag("moe-router-topk", m.experts_per_token);
  flag("moe-ffn-hidden-size", m.moe_ffn);
  flag("moe-aux-loss-coeff", m.router_aux_coef);
  flag("moe-token-dispatcher-type", "alltoall");
  flag("expert-model-parallel-size", spec_.parallel.ep);
}

void Megatron::add_split() {
  const ParallelSpec& p = spec_.parallel;
  flag("tensor-model-parallel-size", p.tp);
  flag("pipeline-model-parallel-size", p.pp);
  flag("context-parallel-size", p.cp);
  if (p.cp > 1) {
    flag("cp-comm-type", p.cp_kind == ContextKind::kRing
                             ? "p2p"
                             : (p.cp_kind == ContextKind::kAllGather ? "all_gather" : "a2a"));
  }
  if (p.sequence_parallel) flag("sequence-parallel");
}

void Megatron::add_pipeline() {
  const ParallelSpec& p = spec_.parallel;
  if (p.pp == 1) return;
  if (!even_stages(p)) {
    flag("pipeline-model-parallel-layout", layout());
  } else if (p.virtual_stages > 1) {
    flag("num-virtual-stages-per-pipeline-rank", p.virtual_stages);
  }
  if (p.schedule == PipelineKind::kInterleaved && p.schedule_group > 0 &&
      p.schedule_group != p.pp) {
    flag("microbatch-group-size-per-virtual-pipeline-stage", p.schedule_group);
  }
}

// Its letters: E the embedding, t a layer, L the loss; "(tt|)*3" are three stages of two layers.
std::string Megatron::layout() const {
  const std::vector<int64_t>& stages = spec_.parallel.stage_layers;
  const auto letters = [&](size_t stage) {
    return std::string(static_cast<size_t>(stages[stage]), 't');
  };
  const auto alone = [&](size_t stage) {
    return stages[stage] > 2 ? fmt::format("t*{}", stages[stage]) : letters(stage);
  };
  const size_t last = stages.size() - 1;
  std::string text = "E" + alone(0) + "|";
  for (size_t stage = 1; stage < last;) {
    size_t next = stage + 1;
    while (next < last && stages[next] == stages[stage]) ++next;
    const size_t alike = next - stage;
    text += alike == 1 ? alone(stage) + "|" : fmt::format("({}|)*{}", letters(stage), alike);
    stage = next;
  }
  return text + alone(last) + "L";
}

void Megatron::add_sharding() {
  const ParallelSpec& p = spec_.parallel;
  if (p.zero == 1) flag("use-distributed-optimizer");
  if (p.zero >= 2) {
    flag("use-megatron-fsdp");
    flag("data-parallel-sharding-strategy", p.zero == 2 ? "optim_grads" : "optim_grads_params");
    flag("ckpt-format", "fsdp_dtensor");
  }
  if (p.overlap && p.replicas() > 1) {
    flag("overlap-grad-reduce");
    if (p.zero >= 1) flag("overlap-param-gather");
  }
  if (is_hybrid_sharded(p)) flag("num-distributed-optimizer-instances", p.dp);
}

void Megatron::add_recompute() {
  const std::optional<RecomputeChoice> choice = recomputation_of_all(spec_);
  if (!choice) return;
  if (choice->blocks > 0) {
    flag("recompute-granularity", "full");
    flag("recompute-method", "uniform");
    flag("recompute-num-layers", choice->blocks);
  } else if (choice->attention || choice->norms) {
    flag("recompute-granularity", "selective");
    flag("recompute-modules", fmt::format("{}{}{}", choice->attention ? "core_attn" : "",
                                          choice->attention && choice->norms ? " " : "",
                                          choice->norms ? "layernorm" : ""));
  }
}

void Megatron::add_training() {
  const TrainSpec& t = spec_.train;
  flag("seq-length", t.seq_len);
  flag("micro-batch-size", t.micro_batch);
  flag("global-batch-size", t.global_batch);
  flag("train-iters", t.steps);
  if (t.dtype == DType::kBF16) flag("bf16");
  if (t.dtype == DType::kF16) flag("fp16");
  if (t.dtype == DType::kF16 && t.loss_scale > 0) flag("loss-scale", t.loss_scale);
  if (t.dtype == DType::kF64) missing_.add("train.dtype = \"f64\"", "use f32, bf16 or f16");
  if (t.dtype == DType::kBF16) {
    flag(t.gradients == DType::kBF16 ? "grad-reduce-in-bf16"
                                     : "accumulate-allreduce-grads-in-fp32");
  }
  const OptimizerSpec& o = spec_.optimizer;
  flag("lr", o.lr);
  flag("min-lr", o.min_lr);
  flag("lr-decay-style", learning_rate_name(o.schedule));
  if (o.schedule == LrSchedule::kWsd) {
    flag("lr-wsd-decay-style", "linear");
    flag("lr-wsd-decay-iters", falling_steps(o, t.steps));
  }
  flag("lr-warmup-iters", o.warmup);
  flag("adam-beta1", o.beta1);
  flag("adam-beta2", o.beta2);
  flag("adam-eps", o.eps);
  flag("weight-decay", o.weight_decay);
  flag("clip-grad", o.clip);
  flag("seed", t.seed);
}

}  // namespace

std::string megatron_settings(const RunSpec& spec) { return Megatron(spec).str(); }

}  // namespace tessera
