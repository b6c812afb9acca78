#include "plan/strategy_of_run.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "compile/model/parameters.h"
#include "compile/pipeline/stages.h"
#include "cost/step/stages.h"
#include "spec/recompute.h"
#include "spec/run_file/asynchronous.h"
#include "spec/run_file/trainable.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

class RunReader {
 public:
  RunReader(const RunSpec& spec, const Cluster& cluster, const Engine& engine) : spec_(spec) {
    seen_.workload.cluster = cluster;
    seen_.workload.engine = engine.numbers;
  }

  RunStrategy run() {
    fill_workload();
    fill_precision();
    fill_strategy();
    fill_schedule();
    fill_recompute();
    return std::move(seen_);
  }

 private:
  void guess(std::string what, std::string taken) {
    seen_.guesses.push_back({std::move(what), std::move(taken)});
  }
  void fill_workload();
  void fill_precision();
  void fill_strategy();
  void fill_recompute();
  void fill_schedule();
  void cut_as_compiled();

  const RunSpec& spec_;
  RunStrategy seen_;
};

void RunReader::fill_workload() {
  Workload& w = seen_.workload;
  w.model = shape_of(spec_.model, spec_.train.seq_len);
  if (untrainable_choice(spec_.model).empty()) w.model.vocab = padded_vocabulary(spec_);
  w.seq_len = spec_.train.seq_len;
  w.global_batch = spec_.train.global_batch;
  w.overlap.data = spec_.parallel.overlap;
  w.overlap.pipeline = spec_.parallel.overlap;
  w.fused_loss = spec_.train.loss_chunk < spec_.train.micro_batch * spec_.train.seq_len;
  w.loss_chunk = spec_.train.loss_chunk;
  // Engines count both moments of AdamW, which are read and written in f32.
  const int64_t fewer = OptimizerSpec{}.states() - spec_.optimizer.states();
  w.engine.optimizer_bytes -= static_cast<double>(fewer * 2 * size_bytes(DType::kF32));
  if (w.engine.sum_bucket_bytes > 0) {
    w.engine.sum_bucket_bytes = static_cast<double>(spec_.parallel.bucket_mb) * 1e6;
  }
}

// As the compiler stores them (compile/lower/storage.cc): of bf16 weights the optimizer keeps the
// 16 bits that they lack.
void RunReader::fill_precision() {
  PrecisionChoice& p = seen_.workload.precision;
  const DType dtype = spec_.train.dtype;
  const int64_t moments = spec_.optimizer.states() * size_bytes(accumulate_type(dtype));
  p.parameter_bytes = p.activation_bytes = size_bytes(dtype);
  p.gradient_bytes = size_bytes(spec_.train.gradient_type());
  p.state_bytes = moments;
  if (dtype == DType::kBF16) p.state_bytes += size_bytes(dtype);
  if (dtype == DType::kF16) p.state_bytes += size_bytes(accumulate_type(dtype));
  const bool wide = dtype == DType::kF32 || dtype == DType::kF64;
  p.products = wide ? MathType::kF32 : MathType::kF16;
  if (dtype == DType::kF64) guess("rate of f64 products", "that of f32");
}

void RunReader::fill_strategy() {
  Strategy& s = seen_.strategy;
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
  s.context = p.cp_kind;
}

// How many blocks of each stage are computed again as a whole; empty where blocks also differ in
// smaller things.
std::vector<int64_t> whole_blocks_again(const RunSpec& spec, const Strategy& s) {
  std::vector<int64_t> again;
  const int64_t stages = s.pp * s.virtual_stages;
  for (int64_t stage = 0; stage < stages; ++stage) {
    const int64_t layers = s.stage_layers.empty()
                               ? EvenStages(spec.model.layers, stages).layers_of(stage)
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

ElementwiseAgain elementwise_of(const RecomputeChoice& choice) {
  if (choice.activations) return ElementwiseAgain::kNormsAndActivations;
  return choice.norms ? ElementwiseAgain::kNorms : ElementwiseAgain::kNone;
}

void RunReader::fill_recompute() {
  Strategy& s = seen_.strategy;
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
  if (choice.blocks == 0) s.elementwise_again = elementwise_of(choice);
  if (text.find_first_of("+/") != text.npos) {
    guess(fmt::format("time of recompute = \"{}\"", spec_.parallel.recompute),
          fmt::format("that of \"{}\" for all blocks", name_of(s.recompute)));
  } else if (choice.blocks == 0 && (choice.norms || choice.activations)) {
    guess("time of norms and activations that are computed again",
          "their bytes at the speed of the memory");
  }
}

void RunReader::fill_schedule() {
  Strategy& s = seen_.strategy;
  const ParallelSpec& p = spec_.parallel;
  s.virtual_stages = p.pp > 1 ? std::max<int64_t>(1, p.virtual_stages) : 1;
  if (p.pp == 1) return;
  const std::optional<PipelineKind> kind = p.schedule.kind();
  if (kind && kind != PipelineKind::kNaive && !is_asynchronous(p)) {
    s.schedule = *kind;
    return cut_as_compiled();
  }
  s.virtual_stages = 1;
  if (std::ssize(s.stage_layers) != p.pp) s.stage_layers.clear();
  s.one_micro_batch_at_a_time = p.schedule == PipelineKind::kNaive;
  // Asynchronous schedules drain with the step, as 1f1b does.
  if (s.one_micro_batch_at_a_time || is_asynchronous(p)) return cut_as_compiled();
  guess(fmt::format("time of schedule {}", p.schedule.text()),
        "that of 1f1b with even stages; tessera simulate plays it as it is");
}

// Where nobody says how many layers a stage has, the compiler balances them by cost.
void RunReader::cut_as_compiled() {
  Strategy& s = seen_.strategy;
  const int64_t stages = s.pp * s.virtual_stages;
  const bool open = s.stage_layers.empty() && stages <= spec_.model.layers;
  if (open && untrainable_choice(spec_.model).empty()) {
    s.stage_layers = layers_per_stage(spec_, static_cast<int>(stages));
  }
}

}  // namespace

RunStrategy strategy_of_run(const RunSpec& spec, const Cluster& cluster, const Engine& engine) {
  return RunReader(spec, cluster, engine).run();
}

}  // namespace tessera
