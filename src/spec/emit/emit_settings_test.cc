#include "spec/emit/emit_settings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text/toml.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

using Words = std::vector<std::string>;

// Flags of Megatron-LM at commit d98e8a64ddf34856e74b24714e3bedb2f5a39553 (22 August 2026):
// add_argument in megatron/training/arguments.py, or a field (with its argparse_meta name) of
// megatron/core/transformer/transformer_config.py, megatron/core/model_parallel_config.py and
// megatron/training/config/*.py, which arguments.py turns into flags.
const std::set<std::string> kMegatronFlags = {"accumulate-allreduce-grads-in-fp32",
                                              "adam-beta1",
                                              "adam-beta2",
                                              "adam-eps",
                                              "add-qkv-bias",
                                              "attention-dropout",
                                              "bf16",
                                              "ckpt-format",
                                              "clip-grad",
                                              "context-parallel-size",
                                              "cp-comm-type",
                                              "data-parallel-sharding-strategy",
                                              "disable-bias-linear",
                                              "expert-model-parallel-size",
                                              "ffn-hidden-size",
                                              "fp16",
                                              "global-batch-size",
                                              "grad-reduce-in-bf16",
                                              "group-query-attention",
                                              "hidden-dropout",
                                              "hidden-size",
                                              "kv-channels",
                                              "loss-scale",
                                              "lr",
                                              "lr-decay-style",
                                              "lr-warmup-iters",
                                              "lr-wsd-decay-iters",
                                              "lr-wsd-decay-style",
                                              "max-position-embeddings",
                                              "micro-batch-size",
                                              "microbatch-group-size-per-virtual-pipeline-stage",
                                              "min-lr",
                                              "moe-aux-loss-coeff",
                                              "moe-ffn-hidden-size",
                                              "moe-router-topk",
                                              "moe-token-dispatcher-type",
                                              "norm-epsilon",
                                              "normalization",
                                              "num-attention-heads",
                                              "num-distributed-optimizer-instances",
                                              "num-experts",
                                              "num-layers",
                                              "num-query-groups",
                                              "num-virtual-stages-per-pipeline-rank",
                                              "overlap-grad-reduce",
                                              "overlap-param-gather",
                                              "pipeline-model-parallel-layout",
                                              "pipeline-model-parallel-size",
                                              "position-embedding-type",
                                              "qk-layernorm",
                                              "recompute-granularity",
                                              "recompute-method",
                                              "recompute-modules",
                                              "recompute-num-layers",
                                              "rope-scaling-factor",
                                              "rotary-base",
                                              "seed",
                                              "seq-length",
                                              "sequence-parallel",
                                              "swiglu",
                                              "tensor-model-parallel-size",
                                              "train-iters",
                                              "untie-embeddings-and-output-weights",
                                              "use-distributed-optimizer",
                                              "use-megatron-fsdp",
                                              "use-rope-scaling",
                                              "vocab-size",
                                              "weight-decay",
                                              "window-size"};

// Sections and fields of JobConfig in torchtitan/config/job_config.py of pytorch/torchtitan at the
// parent of commit 9810191bb (version 0.2.2, February 2026).
const std::set<std::string> kTorchtitanKeys = {
    "activation_checkpoint.mode",
    "debug.seed",
    "lr_scheduler.decay_ratio",
    "lr_scheduler.decay_type",
    "lr_scheduler.min_lr_factor",
    "lr_scheduler.warmup_steps",
    "model.flavor",
    "model.name",
    "optimizer.beta1",
    "optimizer.beta2",
    "optimizer.eps",
    "optimizer.lr",
    "optimizer.name",
    "optimizer.weight_decay",
    "parallelism.context_parallel_degree",
    "parallelism.context_parallel_rotate_method",
    "parallelism.data_parallel_replicate_degree",
    "parallelism.data_parallel_shard_degree",
    "parallelism.expert_parallel_degree",
    "parallelism.fsdp_reshard_after_forward",
    "parallelism.pipeline_parallel_degree",
    "parallelism.pipeline_parallel_first_stage_less_layers",
    "parallelism.pipeline_parallel_last_stage_less_layers",
    "parallelism.pipeline_parallel_layers_per_stage",
    "parallelism.pipeline_parallel_microbatch_size",
    "parallelism.pipeline_parallel_schedule",
    "parallelism.tensor_parallel_degree",
    "training.global_batch_size",
    "training.local_batch_size",
    "training.max_norm",
    "training.mixed_precision_param",
    "training.seq_len",
    "training.steps"};

// Keys of DeepSpeed at commit edaa7221267243c7be7fb49c5d5f5c4fb97b4641 (22 August 2026):
// docs/_pages/config-json.md; sequence_parallel_size and pipeline.stages in
// deepspeed/runtime/config.py; mics_shard_size in deepspeed/runtime/zero/config.py; parameters of
// WarmupCosineLR in deepspeed/runtime/lr_schedules.py.
const std::set<std::string> kDeepSpeedKeys = {"train_batch_size",
                                              "train_micro_batch_size_per_gpu",
                                              "gradient_accumulation_steps",
                                              "gradient_clipping",
                                              "optimizer",
                                              "optimizer.type",
                                              "optimizer.params",
                                              "optimizer.params.lr",
                                              "optimizer.params.betas",
                                              "optimizer.params.eps",
                                              "optimizer.params.weight_decay",
                                              "scheduler",
                                              "scheduler.type",
                                              "scheduler.params",
                                              "scheduler.params.total_num_steps",
                                              "scheduler.params.warmup_num_steps",
                                              "scheduler.params.cos_min_ratio",
                                              "bf16",
                                              "bf16.enabled",
                                              "fp16",
                                              "fp16.enabled",
                                              "fp16.loss_scale",
                                              "data_types",
                                              "data_types.grad_accum_dtype",
                                              "zero_optimization",
                                              "zero_optimization.stage",
                                              "zero_optimization.overlap_comm",
                                              "zero_optimization.reduce_bucket_size",
                                              "zero_optimization.mics_shard_size",
                                              "tensor_parallel",
                                              "tensor_parallel.autotp_size",
                                              "pipeline",
                                              "pipeline.stages",
                                              "sequence_parallel_size",
                                              "activation_checkpointing",
                                              "activation_checkpointing.partition_activations",
                                              "activation_checkpointing.number_checkpoints"};

// Fields of nanotron at commit 2411b022 (7 April 2026): src/nanotron/config/config.py,
// parallelism_config.py and models_config.py.
const std::set<std::string> kNanotronKeys = {"data_stages",
                                             "data_stages.- name",
                                             "data_stages.data",
                                             "data_stages.data.dataset",
                                             "data_stages.data.seed",
                                             "data_stages.start_training_step",
                                             "general",
                                             "general.project",
                                             "general.run",
                                             "general.seed",
                                             "model",
                                             "model.ddp_bucket_cap_mb",
                                             "model.dtype",
                                             "model.init_method",
                                             "model.init_method.std",
                                             "model.make_vocab_size_divisible_by",
                                             "model.model_config",
                                             "model.model_config._attn_implementation",
                                             "model.model_config.attention_bias",
                                             "model.model_config.hidden_act",
                                             "model.model_config.hidden_size",
                                             "model.model_config.intermediate_size",
                                             "model.model_config.is_llama_config",
                                             "model.model_config.is_qwen2_config",
                                             "model.model_config.max_position_embeddings",
                                             "model.model_config.moe_config",
                                             "model.model_config.moe_config.enable_shared_expert",
                                             "model.model_config.moe_config.moe_intermediate_size",
                                             "model.model_config.moe_config.num_experts",
                                             "model.model_config.moe_config.router_aux_loss_coef",
                                             "model.model_config.moe_config.token_dispatcher_type",
                                             "model.model_config.moe_config.top_k",
                                             "model.model_config.num_attention_heads",
                                             "model.model_config.num_hidden_layers",
                                             "model.model_config.num_key_value_heads",
                                             "model.model_config.rms_norm_eps",
                                             "model.model_config.rope_interleaved",
                                             "model.model_config.rope_theta",
                                             "model.model_config.sliding_window_size",
                                             "model.model_config.tie_word_embeddings",
                                             "model.model_config.vocab_size",
                                             "optimizer",
                                             "optimizer.accumulate_grad_in_fp32",
                                             "optimizer.clip_grad",
                                             "optimizer.learning_rate_scheduler",
                                             "optimizer.learning_rate_scheduler.learning_rate",
                                             "optimizer.learning_rate_scheduler.lr_decay_style",
                                             "optimizer.learning_rate_scheduler.lr_warmup_steps",
                                             "optimizer.learning_rate_scheduler.lr_warmup_style",
                                             "optimizer.learning_rate_scheduler.min_decay_lr",
                                             "optimizer.optimizer_factory",
                                             "optimizer.optimizer_factory.adam_beta1",
                                             "optimizer.optimizer_factory.adam_beta2",
                                             "optimizer.optimizer_factory.adam_eps",
                                             "optimizer.optimizer_factory.name",
                                             "optimizer.optimizer_factory.torch_adam_is_fused",
                                             "optimizer.weight_decay",
                                             "optimizer.zero_stage",
                                             "parallelism",
                                             "parallelism.context_parallel_size",
                                             "parallelism.dp",
                                             "parallelism.expert_parallel_size",
                                             "parallelism.pp",
                                             "parallelism.pp_engine",
                                             "parallelism.recompute_layer",
                                             "parallelism.tp",
                                             "parallelism.tp_linear_async_communication",
                                             "parallelism.tp_mode",
                                             "tokens",
                                             "tokens.batch_accumulation_per_replica",
                                             "tokens.micro_batch_size",
                                             "tokens.sequence_length",
                                             "tokens.train_steps"};

RunSpec spec_with(Words changes) {
  const bool has_model = std::any_of(changes.begin(), changes.end(), [](const std::string& change) {
    return change.starts_with("model.preset");
  });
  if (!has_model) changes.insert(changes.begin(), "model.preset=llama-3-8b");
  changes.insert(changes.begin(), "train.dtype=bf16");
  RunSpec spec = parse_run_file("", "", changes, nullptr);
  resolve(spec);
  return spec;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string refusal(const Words& changes, const std::string& system) {
  try {
    emit_settings(spec_with(changes), system);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

// Runs that between them use every setting.
const std::vector<Words> kRuns = {
    {},
    {"parallel.tp=4", "parallel.pp=2", "parallel.dp=8", "parallel.zero=1",
     "parallel.sequence_parallel=true", "parallel.recompute=full", "train.global_batch=64"},
    {"parallel.dp=4", "parallel.zero=2", "train.micro_batch=2", "train.global_batch=32"},
    {"parallel.fsdp=8", "parallel.dp=2", "parallel.tp=2", "parallel.sequence_parallel=true"},
    {"parallel.fsdp=8", "parallel.dp=2", "parallel.zero=3"},
    {"parallel.cp=2", "parallel.cp_kind=ring", "parallel.recompute=selective"},
    {"parallel.cp=2", "parallel.cp_kind=allgather", "parallel.recompute=norms"},
    {"parallel.cp=2", "parallel.cp_kind=ulysses", "parallel.recompute=every-4"},
    {"parallel.pp=4", "parallel.schedule=interleaved", "parallel.virtual_stages=2",
     "train.global_batch=8"},
    {"parallel.pp=2", "parallel.schedule=gpipe", "train.global_batch=8"},
    {"parallel.pp=2", "parallel.stage_layers=[15, 17]", "train.global_batch=8"},
    {"parallel.pp=4", "parallel.stage_layers=[7, 9, 9, 7]", "train.global_batch=8"},
    {"parallel.pp=2", "parallel.schedule=zb-v", "train.global_batch=8"},
    {"train.gradients=bf16"},
    {"train.dtype=f16", "train.loss_scale=1024"},
    {"model.preset=llama-3.1-8b"},
    {"model.preset=gpt2", "train.seq_len=128"},
    {"model.preset=qwen2.5-7b"},
    {"model.preset=qwen3-8b"},
    {"model.preset=mistral-7b"},
    {"model.preset=mixtral-8x7b", "parallel.fsdp=8", "parallel.ep=8"},
    {"model.preset=qwen3-30b-a3b", "parallel.fsdp=8", "parallel.ep=8"},
};

Words keys_of_megatron(const std::string& text) {
  Words keys;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("--")) keys.push_back(line.substr(2, line.find(' ') - 2));
  }
  return keys;
}

Words keys_of_torchtitan(const std::string& text) {
  Words keys;
  const toml::table table = toml::parse(text);
  for (const auto& [section, content] : table) {
    for (const auto& [key, value] : *content.as_table()) {
      keys.push_back(std::string(section.str()) + "." + std::string(key.str()));
    }
  }
  return keys;
}

void add_keys(const nlohmann::json& json, const std::string& before, Words& keys) {
  for (const auto& [key, value] : json.items()) {
    keys.push_back(before + key);
    if (value.is_object()) add_keys(value, before + key + ".", keys);
  }
}

Words keys_of_deepspeed(const std::string& text) {
  Words keys;
  add_keys(nlohmann::json::parse(text), "", keys);
  return keys;
}

// "model.model_config.hidden_size", by the depth of the lines.
Words keys_of_nanotron(const std::string& text) {
  Words keys;
  Words open;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) continue;
    const size_t blanks = line.find_first_not_of(' ');
    const bool item = line[blanks] == '-';
    const std::string key = line.substr(blanks, line.find(':') - blanks);
    open.resize(item ? 1 : blanks / 2);
    std::string path;
    for (const std::string& outer : open) path += outer + ".";
    keys.push_back(path + key);
    if (!item) open.push_back(key);
  }
  return keys;
}

// How many of the runs can be written, and which keys that took.
struct Written {
  int runs = 0;
  std::set<std::string> keys;
};

template <typename KeysOf>
Written write_all(const std::string& system, const KeysOf& keys_of) {
  Written written;
  for (const Words& run : kRuns) {
    std::string text;
    try {
      text = emit_settings(spec_with(run), system);
    } catch (const ConfigError& e) {
      EXPECT_TRUE(has(e.what(), "has no setting for")) << e.what();
      continue;
    }
    ++written.runs;
    const Words keys = keys_of(text);
    const std::set<std::string> unique(keys.begin(), keys.end());
    EXPECT_EQ(unique.size(), keys.size()) << "a key twice in\n" << text;
    written.keys.insert(unique.begin(), unique.end());
  }
  return written;
}

TEST(EmitSettings, WritesOnlyKeysThatTheSystemsHave) {
  const Written megatron = write_all("megatron", keys_of_megatron);
  EXPECT_GE(megatron.runs, 18);
  EXPECT_EQ(megatron.keys.count("group-query-attention"), 1U);
  for (const std::string& key : megatron.keys) EXPECT_TRUE(kMegatronFlags.contains(key)) << key;
  const Written torchtitan = write_all("torchtitan", keys_of_torchtitan);
  EXPECT_GE(torchtitan.runs, 7);
  for (const std::string& key : torchtitan.keys) {
    EXPECT_TRUE(kTorchtitanKeys.contains(key)) << key;
  }
  const Written deepspeed = write_all("deepspeed", keys_of_deepspeed);
  EXPECT_GE(deepspeed.runs, 9);
  for (const std::string& key : deepspeed.keys) EXPECT_TRUE(kDeepSpeedKeys.contains(key)) << key;
  const Written nanotron = write_all("nanotron", keys_of_nanotron);
  EXPECT_GE(nanotron.runs, 4);
  for (const std::string& key : nanotron.keys) EXPECT_TRUE(kNanotronKeys.contains(key)) << key;
}

TEST(EmitSettings, GivesNanotronYaml) {
  const Words run = {"parallel.tp=4",
                     "parallel.pp=2",
                     "parallel.dp=8",
                     "parallel.zero=1",
                     "parallel.sequence_parallel=true",
                     "parallel.recompute=full",
                     "parallel.stage_layers=[18, 14]",
                     "train.global_batch=64"};
  const std::string text = emit_settings(spec_with(run), "nanotron");
  for (const std::string line :
       {"  dp: 8", "  pp: 2", "  tp: 4", "  pp_engine: 1f1b", "  tp_mode: REDUCE_SCATTER",
        "  tp_linear_async_communication: true", "  recompute_layer: true", "  zero_stage: 1",
        "    num_key_value_heads: 8", "    vocab_size: 128256", "    rms_norm_eps: 1.0e-05",
        "  batch_accumulation_per_replica: 8", "  clip_grad: 1.0"}) {
    EXPECT_TRUE(has(text, line + "\n")) << line << "\n" << text;
  }
}

TEST(EmitSettings, RefusesWhatNanotronLacks) {
  const auto refused = [](const Words& run, const std::string& part) {
    EXPECT_TRUE(has(refusal(run, "nanotron"), part)) << part << "\n" << refusal(run, "nanotron");
  };
  refused({"parallel.pp=2", "parallel.schedule=zb-h1", "train.global_batch=4"},
          "schedule = \"zb-h1\" (use 1f1b or gpipe");
  refused({"parallel.pp=2", "train.global_batch=4", "parallel.stage_layers=[16, 16]"},
          "use --set parallel.stage_layers=18+14");
  refused({"parallel.fsdp=2", "parallel.zero=3"}, "parallel.zero = 3 (use 0 or 1)");
  refused({"parallel.tp=16"}, "use tp up to 8");
  refused({"parallel.cp=2", "parallel.cp_kind=ring"}, "use allgather");
  refused({"parallel.recompute=light"}, "use none or full");
  refused({"model.preset=gpt2", "train.seq_len=128"}, "model.norm = \"layer\"");
  refused({"model.preset=qwen3-8b"}, "model.qk_norm = true");
  refused({"model.preset=llama-3.1-8b"}, "rope_scaling");
  refused({"train.dtype=f16"}, "use bf16 or f32");
}

TEST(EmitSettings, GivesMegatronItsFlags) {
  const std::string text =
      emit_settings(spec_with({"parallel.tp=4", "parallel.pp=2", "parallel.dp=8", "parallel.zero=1",
                               "parallel.sequence_parallel=true", "parallel.recompute=full",
                               "train.global_batch=64"}),
                    "megatron");
  for (const std::string flag :
       {"--tensor-model-parallel-size 4", "--pipeline-model-parallel-size 2",
        "--num-query-groups 8", "--use-distributed-optimizer", "--sequence-parallel",
        "--recompute-granularity full", "--global-batch-size 64",
        "--untie-embeddings-and-output-weights", "--accumulate-allreduce-grads-in-fp32"}) {
    EXPECT_TRUE(has(text, "\n" + flag + "\n")) << flag;
  }
}

TEST(EmitSettings, TellsMegatronTheLayersOfEveryStage) {
  const Words run = {"parallel.pp=4", "parallel.stage_layers=[7, 9, 9, 7]", "train.global_batch=8"};
  const std::string text = emit_settings(spec_with(run), "megatron");
  EXPECT_TRUE(has(text, "--pipeline-model-parallel-layout Et*7|(ttttttttt|)*2t*7L\n")) << text;
}

// As Llama 3 has them: one layer fewer on the first and on the last stage.
TEST(EmitSettings, TellsMegatronUnevenVirtualStages) {
  const auto layout = [](const char* stage_layers, const char* pp) {
    return emit_settings(
        spec_with({std::string("parallel.pp=") + pp, "parallel.schedule=interleaved",
                   "parallel.virtual_stages=2",
                   std::string("parallel.stage_layers=") + stage_layers, "train.global_batch=16"}),
        "megatron");
  };
  EXPECT_TRUE(has(layout("[7, 9, 9, 7]", "2"), "-layout Et*7|(ttttttttt|)*2t*7L\n"));
  EXPECT_TRUE(
      has(layout("[0, 5, 5, 6, 5, 5, 6, 0]", "4"), "-layout E|(ttttt|)*2t*6|(ttttt|)*2t*6|L\n"));
  const Words uneven = {"parallel.pp=2", "parallel.schedule=interleaved",
                        "parallel.virtual_stages=2", "parallel.stage_layers=[7, 9, 9, 7]",
                        "train.global_batch=16"};
  EXPECT_TRUE(has(emit_settings(spec_with(uneven), "torchtitan"), "first_stage_less_layers = 2\n"));
  EXPECT_THROW(emit_settings(spec_with(uneven), "deepspeed"), ConfigError);
}

TEST(EmitSettings, GivesTorchtitanItsModelAndDegrees) {
  const std::string text =
      emit_settings(spec_with({"parallel.fsdp=8", "parallel.dp=2", "parallel.tp=2",
                               "parallel.sequence_parallel=true"}),
                    "torchtitan");
  for (const std::string line : {"flavor = \"8B\"", "data_parallel_replicate_degree = 2",
                                 "data_parallel_shard_degree = 8", "tensor_parallel_degree = 2"}) {
    EXPECT_TRUE(has(text, line + "\n")) << line;
  }
}

TEST(EmitSettings, GivesDeepSpeedJson) {
  const auto json = nlohmann::json::parse(
      emit_settings(spec_with({"parallel.dp=4", "parallel.zero=2", "train.micro_batch=2",
                               "train.global_batch=32"}),
                    "deepspeed"));
  EXPECT_EQ(json.at("zero_optimization").at("stage"), 2);
  EXPECT_EQ(json.at("gradient_accumulation_steps"), 4);
  EXPECT_EQ(json.at("train_batch_size"), 32);
  EXPECT_TRUE(json.at("bf16").at("enabled").get<bool>());
}

TEST(EmitSettings, RefusesWhatASystemCannotBeToldAndSaysWhatCan) {
  const Words run = {"parallel.pp=2", "parallel.schedule=zb-h1", "parallel.recompute=light",
                     "train.global_batch=4"};
  const std::string megatron = refusal(run, "megatron");
  EXPECT_TRUE(has(megatron, "schedule = \"zb-h1\" (use 1f1b or interleaved)")) << megatron;
  EXPECT_TRUE(has(megatron, "recompute = \"light\"")) << megatron;
  EXPECT_TRUE(has(refusal(run, "torchtitan"), "use none or full"));
  EXPECT_TRUE(has(refusal(run, "deepspeed"), "use 1f1b"));
  const Words sharded = {"parallel.dp=2", "parallel.zero=1"};
  EXPECT_TRUE(has(refusal(sharded, "torchtitan"), "use 0 or 3"));
  const Words stages = {"parallel.pp=2", "parallel.dp=2", "parallel.zero=2",
                        "train.global_batch=4"};
  EXPECT_TRUE(has(refusal(stages, "deepspeed"), "parallel.zero = 2 with pp (use 0 or 1)"));
  EXPECT_TRUE(has(refusal({"model.layers=3"}, "torchtitan"), "a model of 3 layers"));
}

TEST(EmitSettings, RefusesASystemItDoesNotKnow) {
  EXPECT_THROW(emit_settings(spec_with({}), "megatrom"), ConfigError);
}

}  // namespace
}  // namespace tessera
