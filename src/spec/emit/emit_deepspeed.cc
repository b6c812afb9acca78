// DeepSpeed's configuration: docs/_pages/config-json.md and deepspeed/runtime at commit edaa722
// (August 2026). Sizes of the model are not part of it.
#include <nlohmann/json.hpp>

#include "spec/emit/emit_parts.h"
#include "spec/emit/system_rules.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

class DeepSpeed {
 public:
  explicit DeepSpeed(const RunSpec& spec) : spec_(spec) {}

  std::string str() {
    add_training();
    add_sharding();
    add_split();
    if (spec_.parallel.pp > 1) json_["pipeline"] = {{"stages", spec_.parallel.pp}};
    add_recompute();
    add_refusals(rules_of("deepspeed"), spec_, missing_);
    missing_.refuse("DeepSpeed");
    return json_.dump(2) + "\n";
  }

 private:
  void add_training();
  void add_sharding();
  void add_split();
  void add_recompute();

  const RunSpec& spec_;
  nlohmann::ordered_json json_;
  Inexpressible missing_;
};

void DeepSpeed::add_training() {
  const TrainSpec& t = spec_.train;
  const OptimizerSpec& o = spec_.optimizer;
  json_["train_batch_size"] = t.global_batch;
  json_["train_micro_batch_size_per_gpu"] = t.micro_batch;
  json_["gradient_accumulation_steps"] = accumulation(spec_);
  json_["gradient_clipping"] = o.clip;
  json_["optimizer"] = {{"type", "AdamW"},
                        {"params",
                         {{"lr", o.lr},
                          {"betas", {o.beta1, o.beta2}},
                          {"eps", o.eps},
                          {"weight_decay", o.weight_decay}}}};
  json_["scheduler"] = {{"type", "WarmupCosineLR"},
                        {"params",
                         {{"total_num_steps", t.steps},
                          {"warmup_num_steps", o.warmup},
                          {"cos_min_ratio", o.lr > 0 ? o.min_lr / o.lr : 0.0}}}};
  if (t.dtype == DType::kF64) missing_.add("train.dtype = \"f64\"", "use f32, bf16 or f16");
  if (t.dtype == DType::kBF16) json_["bf16"] = {{"enabled", true}};
  if (t.dtype == DType::kF16) json_["fp16"] = {{"enabled", true}, {"loss_scale", t.loss_scale}};
  json_["data_types"] = {{"grad_accum_dtype", t.gradients == DType::kBF16 ? "bf16" : "fp32"}};
}

void DeepSpeed::add_sharding() {
  const ParallelSpec& p = spec_.parallel;
  nlohmann::ordered_json& zero = json_["zero_optimization"];
  zero["stage"] = p.zero;
  zero["overlap_comm"] = p.overlap;
  zero["reduce_bucket_size"] = p.bucket_mb * 1024 * 1024 / 4;  // elements
  if (is_hybrid_sharded(p)) zero["mics_shard_size"] = p.fsdp;
}

void DeepSpeed::add_split() {
  const ParallelSpec& p = spec_.parallel;
  if (p.tp > 1) json_["tensor_parallel"] = {{"autotp_size", p.tp}};
  if (p.cp > 1) json_["sequence_parallel_size"] = p.cp;
}

void DeepSpeed::add_recompute() {
  const std::optional<RecomputeChoice> choice = recomputation_of_all(spec_);
  if (!choice || choice->blocks == 0) return;
  const int64_t checkpoints = (spec_.model.layers + choice->blocks - 1) / choice->blocks;
  json_["activation_checkpointing"] = {{"partition_activations", false},
                                       {"number_checkpoints", checkpoints}};
}

}  // namespace

std::string deepspeed_settings(const RunSpec& spec) { return DeepSpeed(spec).str(); }

}  // namespace tessera
