#include "spec/foreign_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/text.h"
#include "spec/keys.h"

namespace tessera {
namespace {

struct ForeignName {
  std::string_view name;
  std::string_view key;
  std::string_view note = "";  // where it does not mean quite the same
};

constexpr std::string_view kPerPass = "sequences of a rank in one pass; of a step: global_batch";
constexpr std::string_view kAccumulation =
    "sequences of a step; micro-batches follow from it: global_batch / (micro_batch x dp x fsdp)";
constexpr std::string_view kNoEpochs = "a run counts steps, not epochs";

constexpr ForeignName kForeign[] = {
    {"tensor_model_parallel_size", "parallel.tp"},
    {"tensor_parallel_size", "parallel.tp"},
    {"tensor_parallel_degree", "parallel.tp"},
    {"tensor_parallel", "parallel.tp"},
    {"tensor", "parallel.tp"},
    {"tp_size", "parallel.tp"},
    {"tp_degree", "parallel.tp"},
    {"pipeline_model_parallel_size", "parallel.pp"},
    {"pipeline_parallel_size", "parallel.pp"},
    {"pipeline_parallel_degree", "parallel.pp"},
    {"pipeline_parallel", "parallel.pp"},
    {"pipeline", "parallel.pp"},
    {"pipeline_stages", "parallel.pp"},
    {"num_stages", "parallel.pp"},
    {"pp_size", "parallel.pp"},
    {"data_parallel_size", "parallel.dp"},
    {"data_parallel_degree", "parallel.dp"},
    {"data_parallel_replicate_degree", "parallel.dp"},
    {"data_parallel", "parallel.dp"},
    {"dp_replicate", "parallel.dp"},
    {"dp_size", "parallel.dp"},
    {"num_replicas", "parallel.dp"},
    {"replicas", "parallel.dp"},
    {"data_parallel_shard_degree", "parallel.fsdp"},
    {"dp_shard", "parallel.fsdp"},
    {"fsdp_size", "parallel.fsdp"},
    {"context_parallel_size", "parallel.cp"},
    {"context_parallel_degree", "parallel.cp"},
    {"context_parallel", "parallel.cp"},
    {"cp_size", "parallel.cp"},
    {"expert_model_parallel_size", "parallel.ep"},
    {"expert_parallel_size", "parallel.ep"},
    {"expert_parallel_degree", "parallel.ep"},
    {"expert_parallel", "parallel.ep"},
    {"ep_size", "parallel.ep"},
    {"zero_stage", "parallel.zero"},
    {"zero_optimization", "parallel.zero"},
    {"use_distributed_optimizer", "parallel.zero", "1 splits the optimizer's states"},
    {"virtual_pipeline_model_parallel_size", "parallel.virtual_stages"},
    {"num_virtual_stages_per_pipeline_rank", "parallel.virtual_stages"},
    {"num_layers_per_virtual_pipeline_stage", "parallel.virtual_stages",
     "stages of a rank, not layers of a stage"},
    {"pipeline_schedule", "parallel.schedule"},
    {"pipeline_parallel_schedule", "parallel.schedule"},
    {"pp_schedule", "parallel.schedule"},
    {"recompute_granularity", "parallel.recompute"},
    {"recompute_activations", "parallel.recompute"},
    {"activation_checkpointing", "parallel.recompute"},
    {"activation_checkpoint", "parallel.recompute"},
    {"checkpoint_activations", "parallel.recompute"},
    {"gradient_checkpointing", "parallel.recompute"},
    {"micro_batch_size", "train.micro_batch"},
    {"mbs", "train.micro_batch"},
    {"local_batch_size", "train.micro_batch", kPerPass},
    {"per_device_train_batch_size", "train.micro_batch", kPerPass},
    {"train_micro_batch_size_per_gpu", "train.micro_batch"},
    {"batch_size", "train.micro_batch", kPerPass},
    {"batch", "train.micro_batch", kPerPass},
    {"global_batch_size", "train.global_batch"},
    {"train_batch_size", "train.global_batch"},
    {"gbs", "train.global_batch"},
    {"gradient_accumulation_steps", "train.global_batch", kAccumulation},
    {"batch_accumulation_per_replica", "train.global_batch", kAccumulation},
    {"grad_accum", "train.global_batch", kAccumulation},
    {"seq_length", "train.seq_len"},
    {"sequence_length", "train.seq_len"},
    {"max_seq_length", "train.seq_len"},
    {"max_seq_len", "train.seq_len"},
    {"max_length", "train.seq_len"},
    {"context_length", "train.seq_len"},
    {"block_size", "train.seq_len"},
    {"train_iters", "train.steps"},
    {"train_steps", "train.steps"},
    {"max_steps", "train.steps"},
    {"max_iters", "train.steps"},
    {"num_steps", "train.steps"},
    {"iterations", "train.steps"},
    {"epochs", "train.steps", kNoEpochs},
    {"num_epochs", "train.steps", kNoEpochs},
    {"num_train_epochs", "train.steps", kNoEpochs},
    {"precision", "train.dtype"},
    {"mixed_precision", "train.dtype"},
    {"mixed_precision_param", "train.dtype"},
    {"torch_dtype", "train.dtype"},
    {"bf16", "train.dtype", "\"bf16\""},
    {"fp16", "train.dtype", "\"f16\""},
    {"random_seed", "train.seed"},
    {"learning_rate", "optimizer.lr"},
    {"min_learning_rate", "optimizer.min_lr"},
    {"warmup_steps", "optimizer.warmup"},
    {"warmup_iters", "optimizer.warmup"},
    {"lr_warmup_iters", "optimizer.warmup"},
    {"lr_warmup_steps", "optimizer.warmup"},
    {"num_warmup_steps", "optimizer.warmup"},
    {"lr_decay_style", "optimizer.schedule"},
    {"lr_schedule", "optimizer.schedule"},
    {"lr_scheduler_type", "optimizer.schedule"},
    {"lr_wsd_decay_iters", "optimizer.decay_steps"},
    {"sgd_momentum", "optimizer.momentum"},
    {"eval_interval", "eval.every"},
    {"eval_steps", "eval.every"},
    {"eval_iters", "eval.batches"},
    {"clip_grad", "optimizer.clip"},
    {"grad_clip", "optimizer.clip"},
    {"gradient_clipping", "optimizer.clip"},
    {"max_grad_norm", "optimizer.clip"},
    {"max_norm", "optimizer.clip"},
    {"adam_beta1", "optimizer.betas", "the first of the two"},
    {"adam_beta2", "optimizer.betas", "the second of the two"},
    {"beta1", "optimizer.betas", "the first of the two"},
    {"beta2", "optimizer.betas", "the second of the two"},
    {"adam_eps", "optimizer.eps"},
    {"adam_epsilon", "optimizer.eps"},
    {"wd", "optimizer.weight_decay"},
    {"num_layers", "model.layers"},
    {"n_layers", "model.layers"},
    {"n_layer", "model.layers"},
    {"num_hidden_layers", "model.layers"},
    {"hidden_size", "model.hidden"},
    {"d_model", "model.hidden"},
    {"n_embd", "model.hidden"},
    {"dim", "model.hidden"},
    {"ffn_hidden_size", "model.ffn"},
    {"intermediate_size", "model.ffn"},
    {"d_ff", "model.ffn"},
    {"num_attention_heads", "model.heads"},
    {"num_heads", "model.heads"},
    {"n_heads", "model.heads"},
    {"n_head", "model.heads"},
    {"num_key_value_heads", "model.kv_heads"},
    {"num_query_groups", "model.kv_heads"},
    {"n_kv_heads", "model.kv_heads"},
    {"vocab_size", "model.vocab"},
    {"padded_vocab_size", "model.vocab"},
    {"max_position_embeddings", "model.max_positions"},
    {"tie_word_embeddings", "model.tied"},
    {"rms_norm_eps", "model.norm_eps"},
    {"norm_epsilon", "model.norm_eps"},
    {"layernorm_epsilon", "model.norm_eps"},
    {"rotary_base", "model.rope_theta"},
    {"num_experts", "model.experts"},
    {"num_local_experts", "model.experts"},
    {"num_experts_per_tok", "model.experts_per_token"},
    {"moe_router_topk", "model.experts_per_token"},
    {"moe_intermediate_size", "model.moe_ffn"},
    {"name_or_path", "model.hf"},
    {"model_name_or_path", "model.hf"},
    {"hf_assets_path", "model.hf"},
    {"data_path", "data.path"},
    {"train_data_path", "data.path"},
    {"dataset", "data.path"},
    {"dataset_path", "data.path"},
    {"train_file", "data.path"},
    {"output_dir", "logging.run_dir"},
    {"out_dir", "logging.run_dir"},
    {"save_dir", "logging.run_dir"},
    {"save", "logging.run_dir"},
    {"dump_folder", "logging.run_dir"},
    {"checkpoints_path", "logging.run_dir"},
    {"log_interval", "logging.every"},
    {"logging_steps", "logging.every"},
    {"log_freq", "logging.every"},
};

struct ForeignValue {
  std::string_view value, here;
};
constexpr ForeignValue kValues[] = {
    {"bfloat16", "bf16"},    {"torch.bfloat16", "bf16"},
    {"float32", "f32"},      {"torch.float32", "f32"},
    {"fp32", "f32"},         {"float", "f32"},
    {"single", "f32"},       {"tf32", "f32"},
    {"float16", "f16"},      {"torch.float16", "f16"},
    {"fp16", "f16"},         {"half", "f16"},
    {"float64", "f64"},      {"fp64", "f64"},
    {"double", "f64"},       {"gpu", "cuda"},
    {"cuda:0", "cuda"},      {"nvidia", "cuda"},
    {"rmsnorm", "rms"},      {"layernorm", "layer"},
    {"alltoall", "ulysses"}, {"a2a", "ulysses"},
    {"p2p", "ring"},         {"rotary", "rope"},
};

std::string in_our_letters(std::string_view name) {
  while (name.starts_with('-')) name.remove_prefix(1);
  std::string text = lower_case(name);
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

const ForeignName* foreign(std::string_view name) {
  const std::string small = in_our_letters(name);
  const auto* found = std::find_if(std::begin(kForeign), std::end(kForeign),
                                   [&](const ForeignName& one) { return one.name == small; });
  return found == std::end(kForeign) ? nullptr : found;
}

}  // namespace

std::string key_called(std::string_view name) {
  if (const ForeignName* found = foreign(name)) return std::string(found->key);
  const std::string small = in_our_letters(name);
  for (const Key& key : run_keys()) {
    if (key.name == small || join_path(key.section, key.name) == small) {
      return join_path(key.section, key.name);
    }
  }
  return "";
}

std::string foreign_name_advice(std::string_view name) {
  const std::string key = key_called(name);
  if (key.empty()) return "";
  const ForeignName* found = foreign(name);
  const bool noted = found != nullptr && !found->note.empty();
  return fmt::format("; here it is {}{}", key, noted ? fmt::format(" ({})", found->note) : "");
}

std::string_view value_called(std::string_view value) {
  const std::string small = lower_case(value);
  for (const ForeignValue& one : kValues) {
    if (one.value == small) return one.here;
  }
  return "";
}

}  // namespace tessera
