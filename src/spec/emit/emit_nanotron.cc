// Configurations of nanotron: src/nanotron/config at commit 2411b022 (April 2026).
#include <fmt/ranges.h>

#include "spec/emit/emit_parts.h"
#include "spec/emit/system_rules.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

class Nanotron {
 public:
  explicit Nanotron(const RunSpec& spec) : spec_(spec) {}

  std::string str() {
    add_general();
    add_model();
    add_optimizer();
    add_split();
    add_tokens();
    add_refusals(rules_of("nanotron"), spec_, missing_);
    missing_.refuse("nanotron");
    return "# nanotron as of April 2026; data_stages: random tokens until you name a dataset\n" +
           text_;
  }

 private:
  // A key at some depth of the document; without a value it opens a mapping.
  void open(int depth, std::string_view key) { line(depth, fmt::format("{}:", key)); }
  template <typename T>
  void put(int depth, std::string_view key, const T& value) {
    line(depth, fmt::format("{}: {}", key, value));
  }
  // YAML reads 1e-05 as a text, and 1 as no real number.
  void put_real(int depth, std::string_view key, double value) {
    std::string digits = fmt::format("{}", value);
    const size_t e = digits.find('e');
    if (e != digits.npos && digits.find('.') > e) {
      digits.insert(e, ".0");
    } else if (e == digits.npos && digits.find('.') == digits.npos) {
      digits += ".0";
    }
    put(depth, key, digits);
  }
  void line(int depth, const std::string& text) {
    text_ += std::string(static_cast<size_t>(2 * depth), ' ') + text + "\n";
  }

  void add_general();
  void add_model();
  void add_experts();
  void check_blocks();
  void add_optimizer();
  void add_split();
  void add_tokens();

  const RunSpec& spec_;
  std::string text_;
  Inexpressible missing_;
};

void Nanotron::add_general() {
  open(0, "general");
  put(1, "project", "tessera");
  put(1, "run", spec_.model.preset.empty() ? "run" : spec_.model.preset);
  put(1, "seed", spec_.train.seed);
  open(0, "data_stages");
  line(0, "- name: training");
  put(1, "start_training_step", 1);
  open(1, "data");
  put(2, "dataset", "null");
  put(2, "seed", spec_.train.seed);
}

// What its Llama and Qwen2 blocks are not.
void Nanotron::check_blocks() {
  const ModelSpec& m = spec_.model;
  const auto lacks = [&](bool lacking, std::string what, std::string_view instead) {
    if (lacking) missing_.add(std::move(what), instead);
  };
  lacks(m.norm != NormKind::kRms, "model.norm = \"layer\"", "use rms");
  lacks(m.mlp != MlpKind::kSwiglu, "model.mlp without a gate", "use swiglu");
  lacks(m.positions != PositionKind::kRope, "model.positions other than rope", "use rope");
  lacks(m.mlp_bias, "model.mlp_bias = true", "use false");
  lacks(m.attention_bias == AttentionBias::kAll, "model.attention_bias = \"all\"",
        "use none, or qkv");
  lacks(m.qk_norm, "model.qk_norm = true", "use false");
  lacks(m.dropout > 0 || m.attention_dropout > 0, "dropout", "use 0");
  lacks(m.heads * m.head_dim != m.hidden,
        fmt::format("heads of {} columns for hidden {}", m.head_dim, m.hidden),
        "heads * head_dim must be hidden");
  lacks(m.kv_rank > 0 || m.dense_layers > 0 || m.mtp_layers > 0 || m.parallel_block,
        "latent attention, dense layers before experts, further tokens or parallel blocks",
        "use a model of Llama's or Qwen2's blocks");
}

void Nanotron::add_experts() {
  const ModelSpec& m = spec_.model;
  open(3, "moe_config");
  put(4, "num_experts", m.experts);
  put(4, "top_k", m.experts_per_token);
  put(4, "moe_intermediate_size", m.moe_ffn);
  put(4, "enable_shared_expert", m.shared_ffn > 0);
  if (m.shared_ffn > 0) put(4, "shared_expert_intermediate_size", m.shared_ffn);
  put_real(4, "router_aux_loss_coef", m.router_aux_coef);
  put(4, "token_dispatcher_type", "alltoall");
}

void Nanotron::add_model() {
  check_blocks();
  const ModelSpec& m = spec_.model;
  const DType dtype = spec_.train.dtype;
  if (dtype != DType::kBF16 && dtype != DType::kF32) {
    missing_.add(fmt::format("train.dtype = \"{}\"", name_of(dtype)), "use bf16 or f32");
  }
  const bool qwen = m.experts > 0 || m.attention_bias == AttentionBias::kQkv ||
                    m.sliding_window > 0 || spec_.parallel.cp > 1;
  open(0, "model");
  put(1, "ddp_bucket_cap_mb", spec_.parallel.bucket_mb);
  put(1, "dtype", dtype == DType::kBF16 ? "bfloat16" : "float32");
  open(1, "init_method");
  put_real(2, "std", m.init_std);
  put(1, "make_vocab_size_divisible_by", 1);
  open(1, "model_config");
  put(2, qwen ? "is_qwen2_config" : "is_llama_config", true);
  put(2, "attention_bias", m.attention_bias == AttentionBias::kQkv);
  put(2, "hidden_act", "silu");
  put(2, "hidden_size", m.hidden);
  put(2, "intermediate_size", m.ffn);
  put(2, "max_position_embeddings", spec_.train.seq_len);
  put(2, "num_attention_heads", m.heads);
  put(2, "num_hidden_layers", m.layers);
  put(2, "num_key_value_heads", m.kv_heads);
  put_real(2, "rms_norm_eps", m.norm_eps);
  put_real(2, "rope_theta", m.rope.theta);
  put(2, "rope_interleaved", false);
  if (m.sliding_window > 0) put(2, "sliding_window_size", m.sliding_window);
  put(2, "tie_word_embeddings", m.tied);
  put(2, "vocab_size", m.vocab);
  if (m.rope.scaling != RopeScaling::kDefault) {
    missing_.add("model.rope_scaling", "it ignores rope_scaling: use type = \"default\"");
  }
  if (spec_.parallel.cp > 1) put(2, "_attn_implementation", "llama3_ring_attention");
  if (m.experts > 0) add_experts();
}

void Nanotron::add_optimizer() {
  const OptimizerSpec& o = spec_.optimizer;
  open(0, "optimizer");
  put(1, "accumulate_grad_in_fp32", spec_.train.gradients != DType::kBF16);
  if (o.clip > 0) {
    put_real(1, "clip_grad", o.clip);
  } else {
    put(1, "clip_grad", "null");
  }
  open(1, "learning_rate_scheduler");
  put_real(2, "learning_rate", o.lr);
  put(2, "lr_decay_style", std::string(name_of(o.schedule)));
  put(2, "lr_warmup_steps", o.warmup);
  put(2, "lr_warmup_style", "linear");
  put_real(2, "min_decay_lr", o.min_lr);
  open(1, "optimizer_factory");
  put_real(2, "adam_beta1", o.beta1);
  put_real(2, "adam_beta2", o.beta2);
  put_real(2, "adam_eps", o.eps);
  put(2, "name", "adamW");
  put(2, "torch_adam_is_fused", true);
  put_real(1, "weight_decay", o.weight_decay);
  put(1, "zero_stage", spec_.parallel.zero);
}

void Nanotron::add_split() {
  const ParallelSpec& p = spec_.parallel;
  open(0, "parallelism");
  put(1, "dp", p.replicas());
  put(1, "pp", p.pp);
  put(1, "tp", p.tp);
  put(1, "context_parallel_size", p.cp);
  put(1, "expert_parallel_size", p.ep);
  put(1, "pp_engine", p.schedule == PipelineKind::kGPipe ? "afab" : "1f1b");
  put(1, "tp_mode", p.sequence_parallel ? "REDUCE_SCATTER" : "ALL_REDUCE");
  put(1, "tp_linear_async_communication", p.sequence_parallel && p.overlap);
  put(1, "recompute_layer", p.recompute == name_of(Recompute::kFull));
}

void Nanotron::add_tokens() {
  const TrainSpec& t = spec_.train;
  open(0, "tokens");
  put(1, "batch_accumulation_per_replica", accumulation(spec_));
  put(1, "micro_batch_size", t.micro_batch);
  put(1, "sequence_length", t.seq_len);
  put(1, "train_steps", t.steps);
}

}  // namespace

std::string nanotron_settings(const RunSpec& spec) { return Nanotron(spec).str(); }

}  // namespace tessera
