// Small random runs for tests: every axis, schedule, ZeRO stage, recomputation and kind of block.
#pragma once

#include <initializer_list>
#include <random>
#include <string>

#include "base/error.h"
#include "compile/pipeline/stages.h"
#include "spec/families.h"
#include "spec/run_file/pipeline.h"
#include "spec/run_file/validate.h"
#include "spec/run_spec.h"

namespace tessera::testing {

class RandomRun {
 public:
  explicit RandomRun(uint64_t seed) : random_(seed) {}

  // Not resolved; many of them cannot be.
  RunSpec next() {
    RunSpec spec;
    fill_model(spec);
    fill_parallel(spec);
    fill_train(spec);
    return spec;
  }

  // Resolves `spec`; whether it can be.
  static bool make_possible(RunSpec& spec) {
    try {
      resolve(spec);
      lay_out_stages(spec, /*training=*/true);
    } catch (const ConfigError&) {
      return false;
    }
    return true;
  }

 private:
  int64_t from(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random_() % static_cast<uint64_t>(most - least + 1));
  }
  bool one_in(int64_t n) { return from(1, n) == 1; }
  template <typename T>
  T pick(std::initializer_list<T> values) {
    return *(values.begin() + from(0, static_cast<int64_t>(values.size()) - 1));
  }

  void fill_model(RunSpec& spec) {
    ModelSpec& m = spec.model;
    m.layers = from(1, 9);
    m.heads = 4;
    m.kv_heads = pick<int64_t>({1, 2, 4});
    m.head_dim = pick<int64_t>({4, 6});
    m.hidden = pick<int64_t>({16, 20, 32});
    m.ffn = pick<int64_t>({24, 40});
    m.vocab = pick<int64_t>({40, 51, 64});
    m.tied = one_in(2);
    if (one_in(3)) {
      m.norm = NormKind::kLayer;
      m.mlp = MlpKind::kGelu;
      m.positions = PositionKind::kLearned;
      m.attention_bias = AttentionBias::kAll;
      m.mlp_bias = true;
      m.dropout = one_in(2) ? 0.1 : 0.0;
    } else if (one_in(2)) {
      m.experts = 4;
      m.family = ModelFamily::kMixtral;
      m.router_aux_coef = one_in(2) ? 0.01 : 0.0;
      m.experts_per_token = from(1, 2);
    }
    m.qk_norm = m.experts == 0 && one_in(4);
    m.sliding_window = one_in(5) ? 3 : 0;
  }

  void fill_parallel(RunSpec& spec) {
    ParallelSpec& p = spec.parallel;
    p.pp = pick<int64_t>({1, 2, 2, 3, 4});
    for (int64_t* axis : {&p.dp, &p.fsdp, &p.cp, &p.tp}) *axis = one_in(2) ? 2 : 1;
    while (p.world() > 16) *pick<int64_t*>({&p.dp, &p.fsdp, &p.cp, &p.tp}) = 1;
    p.zero = from(0, 3);
    p.sequence_parallel = p.tp > 1 && one_in(2);
    p.cp_kind = pick({ContextKind::kRing, ContextKind::kAllGather, ContextKind::kUlysses});
    p.grad_reduce = pick({GradReduce::kAuto, GradReduce::kStep, GradReduce::kMicroBatch});
    p.prefetch = from(0, 3);
    p.unit_blocks = p.prefetch > 1 ? 2 : 1;
    p.release_after_forward = !one_in(3);
    p.overlap = !one_in(4);
    p.bucket_mb = pick<int64_t>({0, 25});
    p.recompute =
        pick<const char*>({"none", "norms", "light", "selective", "full", "every-2", "every-3",
                           "light:2+norms", "full:1+none", "selective:1+every-2"});
    if (p.pp > 1 && one_in(3)) {
      p.recompute = pick<const char*>({"full/none", "light:1+none/full:1+norms", "none/every-2"});
    }
    if (spec.model.experts > 0 && one_in(2)) p.ep = 2;
    if (p.pp > 1) {
      const auto kinds = schedule_kinds();
      const ScheduleKind& kind = kinds[static_cast<size_t>(from(0, std::ssize(kinds) - 1))];
      p.schedule = kind.kind;
      if (kind.any_virtual_stages) p.virtual_stages = from(2, 3);
    }
    const int64_t stages = p.pp * (p.virtual_stages > 0 ? p.virtual_stages : 1);
    if (one_in(3) && stages <= spec.model.layers) {
      p.stage_layers.assign(static_cast<size_t>(stages), 1);
      for (int64_t i = stages; i < spec.model.layers; ++i) {
        ++p.stage_layers[static_cast<size_t>(from(0, stages - 1))];
      }
    }
  }

  void fill_train(RunSpec& spec) {
    TrainSpec& t = spec.train;
    t.seq_len = pick<int64_t>({8, 12, 16});
    t.micro_batch = from(1, 3);
    t.global_batch = t.micro_batch * spec.parallel.replicas() * from(1, 9);
    t.dtype = pick<DType>({DType::kF32, DType::kBF16, DType::kF16, DType::kF64});
    t.gradients = t.dtype == DType::kBF16 && one_in(2) ? DType::kBF16 : DType::kF32;
    t.device = one_in(3) ? TrainDevice::kCuda : TrainDevice::kCpu;
    t.threads = from(1, 3);
    t.loss_chunk = pick<int64_t>({4, 16, 512});
  }

  std::mt19937_64 random_;
};

}  // namespace tessera::testing
