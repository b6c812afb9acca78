#include "plan/run_plan.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "compile/model/parameters.h"
#include "compile/pipeline/stages.h"
#include "cost/hardware/catalogue.h"
#include "cost/step/stages.h"
#include "plan/engine_guesses.h"
#include "spec/recompute.h"
#include "spec/run_file/asynchronous.h"
#include "spec/run_file/trainable.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

// Of schedules that the cost model has no kind for: how many times 1f1b's bubble they have. One
// micro-batch after the other waits for all stages every time; asynchronous ones drain with the
// step.
std::optional<double> known_bubble(const RunSpec& spec) {
  if (spec.parallel.pp == 1) return std::nullopt;
  const std::string& schedule = spec.parallel.schedule;
  if (schedule == "naive") return static_cast<double>(accumulation(spec));
  if (is_asynchronous(spec.parallel)) return 1;
  return std::nullopt;
}

// Of an estimate whose step takes longer or shorter than it was priced.
void set_step(Estimate& estimate, double step_s) {
  const double slower = estimate.time.step_s / step_s;
  estimate.time.step_s = step_s;
  for (double* rate :
       {&estimate.mfu, &estimate.hfu, &estimate.tokens_per_s, &estimate.flops_per_device_s}) {
    *rate *= slower;
  }
}

class Pricing {
 public:
  Pricing(const RunSpec& spec, const Cluster& cluster, const Engine& engine) : spec_(spec) {
    priced_.workload.cluster = cluster;
    priced_.workload.engine = engine.numbers;
  }

  PricedRun run() {
    fill_workload();
    fill_precision();
    fill_strategy();
    fill_schedule();
    fill_recompute();
    return std::move(priced_);
  }

 private:
  void guess(std::string what, std::string taken) {
    priced_.guesses.push_back({std::move(what), std::move(taken)});
  }
  void fill_workload();
  void fill_precision();
  void fill_strategy();
  void fill_recompute();
  void fill_schedule();
  void cut_as_compiled();

  const RunSpec& spec_;
  PricedRun priced_;
};

void Pricing::fill_workload() {
  Workload& w = priced_.workload;
  w.model = shape_of(spec_.model, spec_.train.seq_len);
  if (untrainable_choice(spec_.model).empty()) w.model.vocab = padded_vocabulary(spec_);
  w.seq_len = spec_.train.seq_len;
  w.global_batch = spec_.train.global_batch;
  w.overlap.data = spec_.parallel.overlap;
  w.overlap.pipeline = spec_.parallel.overlap;
  w.fused_loss = spec_.train.loss_chunk < spec_.train.micro_batch * spec_.train.seq_len;
  w.loss_chunk = spec_.train.loss_chunk;
}

// As the compiler stores them (compile/lower/storage.cc): of bf16 weights the optimizer keeps the
// 16 bits that they lack.
void Pricing::fill_precision() {
  PrecisionPlan& p = priced_.workload.precision;
  const DType dtype = spec_.train.dtype;
  const int64_t moments = 2 * size_bytes(accumulate_type(dtype));
  p.parameter_bytes = p.activation_bytes = size_bytes(dtype);
  p.gradient_bytes = size_bytes(spec_.train.gradient_type());
  p.state_bytes = moments;
  if (dtype == DType::kBF16) p.state_bytes += size_bytes(dtype);
  if (dtype == DType::kF16) p.state_bytes += size_bytes(accumulate_type(dtype));
  const bool wide = dtype == DType::kF32 || dtype == DType::kF64;
  p.products = wide ? MathType::kF32 : MathType::kF16;
  if (dtype == DType::kF64) guess("rate of f64 products", "that of f32");
}

void Pricing::fill_strategy() {
  Strategy& s = priced_.strategy;
  const ParallelSpec& p = spec_.parallel;
  s.tp = p.tp;
  s.pp = p.pp;
  s.dp = p.replicas();
  s.cp = p.cp;
  s.ep = p.ep;
  s.zero = p.zero;
  s.shard = p.fsdp > 1 && p.dp > 1 ? p.fsdp * p.cp : 0;
  s.sequence_parallel = p.sequence_parallel;
  s.micro_batch = spec_.train.micro_batch;
  s.release_after_forward = p.release_after_forward;
  s.stage_layers = p.stage_layers;
  s.context = p.cp_kind == "ring"
                  ? ContextKind::kRing
                  : (p.cp_kind == "allgather" ? ContextKind::kAllGather : ContextKind::kUlysses);
}

// Of each stage, how many blocks are computed again as a whole; empty where blocks also differ in
// smaller things.
std::vector<int64_t> whole_blocks_again(const RunSpec& spec, const Strategy& s) {
  std::vector<int64_t> again;
  const int64_t stages = s.pp * s.virtual_stages;
  for (int64_t stage = 0; stage < stages; ++stage) {
    const int64_t layers = s.stage_layers.empty()
                               ? even_stage_layers(spec.model.layers, stages, stage)
                               : s.stage_layers[static_cast<size_t>(stage)];
    const std::vector<RecomputePart> parts =
        parse_recompute(recompute_of_stage(spec.parallel.recompute, stage), spec.model.layers);
    again.push_back(0);
    for (int64_t block = 0; block < layers; ++block) {
      const RecomputeChoice& choice = parts[part_of_block(parts, block)].choice;
      if (choice.norms) return {};
      again.back() += choice.blocks > 0 ? 1 : 0;
    }
  }
  return again;
}

void Pricing::fill_recompute() {
  Strategy& s = priced_.strategy;
  const std::string& text = spec_.parallel.recompute;
  if (text.find_first_of("+/") != text.npos) {
    s.stage_recompute = whole_blocks_again(spec_, s);
    if (!s.stage_recompute.empty()) {
      s.recompute = Recompute::kFull;
      return;
    }
  }
  const std::vector<RecomputePart> parts =
      parse_recompute(recompute_of_stage(text, 0), spec_.model.layers);
  const RecomputeChoice& choice = parts.back().choice;
  if (choice.blocks > 0) {
    s.recompute = Recompute::kFull;
  } else if (choice.attention) {
    s.recompute = Recompute::kSelective;
  }
  if (text.find_first_of("+/") != text.npos) {
    guess(fmt::format("time of recompute = \"{}\"", spec_.parallel.recompute),
          fmt::format("that of \"{}\" for all blocks", name_of(s.recompute)));
  } else if (choice.blocks == 0 && (choice.norms || choice.activations)) {
    guess("time of norms and activations that are computed again",
          "their bytes at the speed of the memory");
  }
}

void Pricing::fill_schedule() {
  Strategy& s = priced_.strategy;
  const ParallelSpec& p = spec_.parallel;
  s.virtual_stages = p.pp > 1 ? std::max<int64_t>(1, p.virtual_stages) : 1;
  if (p.pp == 1) return;
  for (const PipelineKind kind :
       {PipelineKind::kGPipe, PipelineKind::k1F1B, PipelineKind::kInterleaved, PipelineKind::kZbH1,
        PipelineKind::kZbH2, PipelineKind::kZbV, PipelineKind::kDualPipeV}) {
    if (name_of(kind) != p.schedule) continue;
    s.schedule = kind;
    cut_as_compiled();
    return;
  }
  s.virtual_stages = 1;
  if (std::ssize(s.stage_layers) != p.pp) s.stage_layers.clear();
  if (known_bubble(spec_).has_value()) return cut_as_compiled();
  guess(fmt::format("time of schedule {}", p.schedule),
        "that of 1f1b with even stages; tessera simulate plays it as it is");
}

// Where nobody says how many layers a stage has, the compiler balances them by cost.
void Pricing::cut_as_compiled() {
  Strategy& s = priced_.strategy;
  const int64_t stages = s.pp * s.virtual_stages;
  const bool open = s.stage_layers.empty() && stages <= spec_.model.layers;
  if (open && untrainable_choice(spec_.model).empty()) {
    s.stage_layers = layers_per_stage(spec_, static_cast<int>(stages));
  }
}

// The cost model knows 1f1b's bubble: every other stage waits once for a micro-batch.
void price_other_bubble(const RunSpec& spec, Estimate& estimate) {
  const std::optional<double> times = known_bubble(spec);
  if (!times.has_value()) return;
  StepTime& t = estimate.time;
  const double bubble = t.bubble_s * *times;
  set_step(estimate, t.step_s - t.bubble_s + bubble);
  t.bubble_s = bubble;
}

// Norms and activations that are computed again run at the speed of the memory; the cost model,
// which knows attention and whole layers, leaves them to us.
void add_elementwise_recompute(const RunSpec& spec, const PricedRun& priced, Estimate& estimate) {
  const std::vector<RecomputePart> parts =
      parse_recompute(recompute_of_stage(spec.parallel.recompute, 0), spec.model.layers);
  const RecomputeChoice& choice = parts.back().choice;
  if (priced.strategy.recompute == Recompute::kFull || !(choice.norms || choice.activations))
    return;
  const Workload& w = priced.workload;
  const Strategy& s = priced.strategy;
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  const double tokens = number(s.micro_batch) * number(w.seq_len) / number(s.cp);
  const double element = number(w.precision.activation_bytes);
  // Two norms read and write the residual; an activation reads one or two inputs and writes one.
  const double norms =
      4 * tokens * number(w.model.hidden) / (s.sequence_parallel ? number(s.tp) : 1.0);
  const bool experts = w.model.experts > 0;
  const double width = experts ? number(w.model.moe_ffn * w.model.experts_per_token)
                               : number(w.model.ffn) / number(s.tp);
  const double activations =
      choice.activations ? (w.model.gated_mlp ? 3 : 2) * tokens * width : 0.0;
  const DeviceSpec& device = w.cluster.device;
  const double layer_s = (norms + activations) * element /
                             (device.memory_bandwidth.value * device.memory_efficiency.value) +
                         3 * device.launch_s.value;
  const double layers = number((w.model.layers + s.pp - 1) / s.pp);
  const double extra = layer_s * layers * number(accumulation(spec));
  StepTime& t = estimate.time;
  const double bubble = t.compute_s > 0 ? extra * t.bubble_s / t.compute_s : 0;
  t.compute_s += extra;
  t.recompute_s += extra;
  t.bubble_s += bubble;
  set_step(estimate, t.step_s + extra + bubble);
}

// Constants of the device and its links that nobody has measured or published.
void add_default_constants(const Cluster& cluster, std::vector<Guess>& guesses) {
  const DeviceSpec& d = cluster.device;
  const auto add = [&](std::string what, const Constant& constant, double unit,
                       std::string_view unit_name) {
    if (constant.provenance != Provenance::kDefault || constant.value == 0) return;
    guesses.push_back({std::move(what), fmt::format("{:g}{} ({})", constant.value / unit, unit_name,
                                                    constant.source)});
  };
  const auto of_device = [&](std::string_view what) {
    return fmt::format("{} of {}", what, d.name);
  };
  add(of_device("reserved memory"), d.reserved_bytes, 1e9, " GB");
  add(of_device("memory"), d.memory_bytes, 1e9, " GB");
  add(of_device("share of memory bandwidth"), d.memory_efficiency, 0.01, " %");
  add(of_device("attention's share of the peak"), d.attention_efficiency, 0.01, " %");
  add(of_device("time of a launch"), d.launch_s, 1e-6, " us");
  for (const LinkLevel& level : cluster.levels) {
    add("bandwidth of " + level.name, level.bandwidth, 1e9, " GB/s");
    add("latency of " + level.name, level.latency_s, 1e-6, " us");
    add("efficiency of " + level.name, level.efficiency, 0.01, " %");
  }
}

ArenaKind arena_of(MemoryPart part) {
  switch (part) {
    case MemoryPart::kParameters:
      return ArenaKind::kParameters;
    case MemoryPart::kGradients:
      return ArenaKind::kGradients;
    case MemoryPart::kOptimizer:
      return ArenaKind::kOptimizer;
    case MemoryPart::kActivations:
    case MemoryPart::kWorking:
      return ArenaKind::kActivations;
    case MemoryPart::kGathered:
      return ArenaKind::kCommunication;
    case MemoryPart::kBuffers:
      break;
  }
  return ArenaKind::kWorkspace;
}

// What can be said of the ranks of a model that no Program computes.
ScalePlan ranks_of_estimate(const RunSpec& spec, const PricedRun& priced,
                            const Estimate& estimate) {
  ScalePlan plan;
  plan.spec = spec;
  plan.mesh = mesh_of(spec.parallel);
  plan.num_parameters = priced.workload.model.parameters();
  plan.schedule.name = name_of(priced.strategy.schedule);
  plan.schedule.stages = static_cast<int>(priced.strategy.pp * priced.strategy.virtual_stages);
  const int64_t per_stage = plan.mesh.world() / spec.parallel.pp;
  for (const StageMemory& stage : estimate.stages) {
    ClassPlan one;
    one.ranks.pipeline_rank = stage.stage;
    one.ranks.first_rank = static_cast<int>(stage.stage * per_stage);
    one.ranks.ranks = per_stage;
    for (int part = 0; part < kNumMemoryParts; ++part) {
      one.memory[static_cast<size_t>(arena_of(static_cast<MemoryPart>(part)))] +=
          stage.bytes[static_cast<size_t>(part)];
    }
    plan.classes.push_back(std::move(one));
  }
  return plan;
}

}  // namespace

PricedRun priced_run(const RunSpec& spec, const Cluster& cluster, const Engine& engine) {
  return Pricing(spec, cluster, engine).run();
}

int64_t memory_limit(const RunSpec& spec, const Cluster& cluster) {
  if (spec.cluster.memory_gib > 0) return static_cast<int64_t>(spec.cluster.memory_gib * kGib);
  const DeviceSpec& device = cluster.device;
  return static_cast<int64_t>(device.memory_bytes.value - device.reserved_bytes.value);
}

void use_cluster_defaults(RunSpec& spec, const Cluster& cluster) {
  spec.train.device = cluster.device.name.starts_with("cpu") ? "cpu" : "cuda";
  if (spec.train.threads == 0) spec.train.threads = 1;
}

RunPrice price_run(const RunSpec& spec, const Cluster& cluster, const Engine& engine) {
  const int64_t world = spec.parallel.world();
  require_config(
      world <= cluster.devices,
      "the mesh has {} ranks but cluster {} has {} devices; use smaller dp, fsdp, tp, cp "
      "or pp, or a cluster of more devices (h100-64 is 64 of h100)",
      world, cluster.name, cluster.devices);
  RunPrice price;
  price.run =
      priced_run(spec, world == cluster.devices ? cluster : with_devices(cluster, world), engine);
  const std::string wrong = why_impossible(price.run.workload, price.run.strategy);
  require_config(wrong.empty(), "{}", wrong);
  price.estimate = CostModel(price.run.workload).estimate(price.run.strategy);
  price_other_bubble(spec, price.estimate);
  add_elementwise_recompute(spec, price.run, price.estimate);
  return price;
}

RunPlan plan_run(const RunSpec& spec, const Cluster& cluster, const Engine& engine,
                 ScalePlanner& planner) {
  RunPrice price = price_run(spec, cluster, engine);
  RunPlan plan;
  plan.cluster = price.run.workload.cluster;
  plan.cluster.name = cluster.name;
  plan.cluster_devices = cluster.devices;
  plan.engine = engine.name;
  plan.estimate = std::move(price.estimate);
  plan.not_compiled = untrainable_choice(spec.model);
  if (plan.not_compiled.empty()) {
    plan.ranks = planner.plan(spec);
  } else {
    plan.ranks = ranks_of_estimate(spec, price.run, plan.estimate);
    plan.guesses.push_back(
        {"memory", fmt::format("closed forms: there is no program for {}", plan.not_compiled)});
  }
  plan.limit_bytes = memory_limit(spec, cluster);
  plan.reserved_bytes = static_cast<int64_t>(cluster.device.reserved_bytes.value);
  const std::vector<Guess>& guesses = price.run.guesses;
  plan.guesses.insert(plan.guesses.end(), guesses.begin(), guesses.end());
  plan.guesses.insert(plan.guesses.end(), plan.estimate.guesses.begin(),
                      plan.estimate.guesses.end());
  add_default_constants(plan.cluster, plan.guesses);
  add_engine_guesses(engine, price.run.workload, price.run.strategy, plan.guesses);
  return plan;
}

}  // namespace tessera
