// Runs and machines that tests of the replay share.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "compile/step.h"
#include "compile/testing/test_spec.h"
#include "sim/replay/rank_classes.h"
#include "sim/replay/roofline_times.h"

namespace tessera::testing {

struct Compiled {
  StepGraph step;
  RankPrograms programs;
};

inline Compiled run_of(const std::string& mesh, int64_t layers = 4, int64_t micro_batches = 4) {
  RunSpec spec = small_spec(mesh);
  spec.model.layers = layers;
  spec.train.global_batch = micro_batches * spec.parallel.replicas();
  Compiled run;
  run.step = build_step(resolved(std::move(spec)), StepKind::kTraining);
  run.programs = all_programs(compile_ranks(run.step));
  return run;
}

// Small enough that the model above takes comparable times for kernels and messages.
inline RooflineMachine two_nodes() {
  return {.flops = 1e9,
          .memory_bandwidth = 1e9,
          .launch_s = 1e-6,
          .levels = {{.devices = 2, .bandwidth = 1e9, .latency_s = 1e-6},
                     {.devices = 0, .bandwidth = 2e8, .latency_s = 5e-6}}};
}

inline constexpr const char* kMeshes[] = {
    "dp=1",
    "dp=2",
    "tp=2",
    "pp=2",
    "pp=4,schedule=zb-h1",
    "pp=2,dp=2,tp=2,sequence_parallel=true",
    "pp=2,schedule=interleaved,virtual_stages=2,dp=2,zero=2",
    "fsdp=4",
    "dp=2,fsdp=2,cp=2",
    "cp=2,cp_kind=ulysses,tp=2",
    "pp=2,schedule=zb-v,tp=2",
};

// A forward takes 1 and a backward 2, everything else nothing. The first kernel of each has all of
// it, since messages leave as soon as their value is there, before the rest of a backward is done.
class UnitTimes : public Times {
 public:
  explicit UnitTimes(const RankPrograms& programs) {
    for (const auto& program : programs.distinct) {
      std::set<std::pair<int, bool>> seen;  // micro-batches, and whether it was their forward
      for (const Instruction& instruction : program->instructions) {
        if (!counts(instruction)) continue;
        const bool forward = instruction.tag.pass == Pass::kForward;
        if (!seen.emplace(instruction.micro_batch, forward).second) continue;
        seconds_[&instruction] = forward ? 1 : 2;
      }
    }
  }
  [[nodiscard]] double kernel_s(const Program&, const Instruction& instruction) const override {
    const auto found = seconds_.find(&instruction);
    return found == seconds_.end() ? 0 : found->second;
  }
  [[nodiscard]] TransferTime transfer(const Program&, const Instruction&,
                                      const std::vector<int>&) const override {
    return {};
  }
  [[nodiscard]] int num_levels() const override { return 1; }

 private:
  static bool counts(const Instruction& instruction) {
    return instruction.stream == StreamKind::kCompute && instruction.micro_batch >= 0 &&
           instruction.tag.pass != Pass::kReduce && instruction.tag.pass != Pass::kUpdate;
  }
  std::map<const Instruction*, double> seconds_;
};

}  // namespace tessera::testing
