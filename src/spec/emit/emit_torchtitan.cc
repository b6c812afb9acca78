// Job files of torchtitan: torchtitan/config/job_config.py before commit 9810191 (version 0.2.2,
// February 2026), after which configurations are functions in Python.
#include <algorithm>
#include <array>

#include "spec/emit/emit_parts.h"
#include "spec/emit/system_rules.h"
#include "spec/run_file/validate.h"
#include "spec/run_file/validate_optimizer.h"

namespace tessera {
namespace {

// Models have names there, not sizes: torchtitan/models/*/__init__.py of the same commit.
struct Flavor {
  std::string_view name, flavor;
  int64_t layers, hidden, ffn, vocab, experts;
  bool qk_norm;
};
constexpr std::array<Flavor, 11> kFlavors = {{
    {"llama3", "8B", 32, 4096, 14336, 128256, 0, false},
    {"llama3", "70B", 80, 8192, 28672, 128256, 0, false},
    {"llama3", "405B", 126, 16384, 53248, 128256, 0, false},
    {"qwen3", "0.6B", 28, 1024, 3072, 151936, 0, true},
    {"qwen3", "1.7B", 28, 2048, 6144, 151936, 0, true},
    {"qwen3", "4B", 36, 2560, 9728, 151936, 0, true},
    {"qwen3", "8B", 36, 4096, 12288, 151936, 0, true},
    {"qwen3", "14B", 40, 5120, 17408, 151936, 0, true},
    {"qwen3", "32B", 64, 5120, 25600, 151936, 0, true},
    {"qwen3", "30B-A3B", 48, 2048, 768, 151936, 128, true},
    {"qwen3", "235B-A22B", 94, 4096, 1536, 151936, 128, true},
}};

struct Schedule {
  PipelineKind ours;
  std::string_view theirs;
};
constexpr std::array<Schedule, 5> kSchedules = {{{PipelineKind::kGPipe, "GPipe"},
                                                 {PipelineKind::k1F1B, "1F1B"},
                                                 {PipelineKind::kInterleaved, "Interleaved1F1B"},
                                                 {PipelineKind::kZbV, "ZBVZeroBubble"},
                                                 {PipelineKind::kDualPipeV, "DualPipeV"}}};

class Torchtitan {
 public:
  explicit Torchtitan(const RunSpec& spec) : spec_(spec) {}

  std::string str() {
    add_model();
    add_training();
    add_split();
    if (spec_.parallel.pp > 1) add_pipeline();
    add_recompute();
    add_refusals(rules_of("torchtitan"), spec_, missing_);
    missing_.refuse("torchtitan");
    return "# torchtitan up to 0.2.2 (job files in TOML)\n" + text_;
  }

 private:
  void section(std::string_view name) {
    text_ += fmt::format("{}[{}]\n", text_.empty() ? "" : "\n", name);
  }
  template <typename T>
  void number(std::string_view key, const T& value) {
    text_ += fmt::format("{} = {}\n", key, value);
  }
  void word(std::string_view key, std::string_view value) {
    text_ += fmt::format("{} = \"{}\"\n", key, value);
  }
  void add_model();
  void add_training();
  void add_split();
  void add_pipeline();
  void add_stages();
  void add_recompute();

  const RunSpec& spec_;
  std::string text_;
  Inexpressible missing_;
};

void Torchtitan::add_model() {
  const ModelSpec& m = spec_.model;
  const int64_t width = m.experts > 0 ? m.moe_ffn : m.ffn;
  for (const Flavor& flavor : kFlavors) {
    const bool same = flavor.layers == m.layers && flavor.hidden == m.hidden &&
                      flavor.ffn == width && flavor.vocab == m.vocab &&
                      flavor.experts == m.experts && flavor.qk_norm == m.qk_norm;
    if (!same) continue;
    section("model");
    word("name", flavor.name);
    word("flavor", flavor.flavor);
    return;
  }
  missing_.add(fmt::format("a model of {} layers, hidden {}, ffn {}, vocab {}", m.layers, m.hidden,
                           width, m.vocab),
               "it has llama3 8B, 70B and 405B and qwen3 0.6B to 235B-A22B; others are Python");
}

void Torchtitan::add_training() {
  const TrainSpec& t = spec_.train;
  const OptimizerSpec& o = spec_.optimizer;
  if (t.dtype != DType::kBF16 && t.dtype != DType::kF32) {
    missing_.add(fmt::format("train.dtype = \"{}\"", name_of(t.dtype)), "use bf16 or f32");
  }
  if (t.gradients == DType::kBF16) missing_.add("train.gradients = \"bf16\"", "it sums in f32");
  section("training");
  const bool pipeline = spec_.parallel.pp > 1;
  number("local_batch_size", pipeline ? t.micro_batch * accumulation(spec_) : t.micro_batch);
  number("global_batch_size", t.global_batch);
  number("seq_len", t.seq_len);
  number("steps", t.steps);
  number("max_norm", o.clip);
  word("mixed_precision_param", t.dtype == DType::kBF16 ? "bfloat16" : "float32");
  section("optimizer");
  word("name", "AdamW");
  number("lr", o.lr);
  number("beta1", o.beta1);
  number("beta2", o.beta2);
  number("eps", o.eps);
  number("weight_decay", o.weight_decay);
  section("lr_scheduler");
  number("warmup_steps", o.warmup);
  word("decay_type", o.schedule == LrSchedule::kCosine ? "cosine" : "linear");
  if (o.schedule == LrSchedule::kWsd) {
    number("decay_ratio",
           static_cast<double>(falling_steps(o, t.steps)) / static_cast<double>(t.steps));
  }
  number("min_lr_factor", o.lr > 0 ? o.min_lr / o.lr : 0);
  section("debug");
  number("seed", t.seed);
}

void Torchtitan::add_split() {
  const ParallelSpec& p = spec_.parallel;
  section("parallelism");
  const int64_t shard = p.zero != 3 ? 1 : (p.fsdp > 1 ? p.fsdp : p.dp);
  number("data_parallel_replicate_degree", p.replicas() / shard);
  number("data_parallel_shard_degree", shard);
  word("fsdp_reshard_after_forward", p.release_after_forward ? "always" : "never");
  number("tensor_parallel_degree", p.tp);
  number("context_parallel_degree", p.cp);
  if (p.cp > 1) {
    word("context_parallel_rotate_method",
         p.cp_kind == ContextKind::kRing ? "alltoall" : "allgather");
  }
  if (spec_.model.experts > 0) number("expert_parallel_degree", p.ep);
  number("pipeline_parallel_degree", p.pp);
}

void Torchtitan::add_pipeline() {
  const ParallelSpec& p = spec_.parallel;
  std::string_view theirs;
  for (const Schedule& schedule : kSchedules) {
    if (p.schedule == schedule.ours) theirs = schedule.theirs;
  }
  word("pipeline_parallel_schedule", theirs);
  number("pipeline_parallel_microbatch_size", spec_.train.micro_batch);
  add_stages();
}

// The embedding and the head count as layers that the first and the last stage have less.
void Torchtitan::add_stages() {
  const std::vector<int64_t>& stages = spec_.parallel.stage_layers;
  if (stages.size() < 2) return;
  int64_t most = 0;
  for (const int64_t layers : stages) most = std::max(most, layers);
  number("pipeline_parallel_layers_per_stage", most);
  number("pipeline_parallel_first_stage_less_layers", most - stages.front());
  number("pipeline_parallel_last_stage_less_layers", most - stages.back());
}

void Torchtitan::add_recompute() {
  // Its "selective" keeps every second product, which no choice of ours does.
  const std::optional<Recompute> kind = choice_named<Recompute>(spec_.parallel.recompute);
  section("activation_checkpoint");
  word("mode", kind == Recompute::kFull ? "full" : "none");
}

}  // namespace

std::string torchtitan_settings(const RunSpec& spec) { return Torchtitan(spec).str(); }

}  // namespace tessera
