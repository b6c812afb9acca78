// Times training steps on random tokens in memory: all ranks as threads of this process.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "train/plan_report.h"

namespace tessera {

struct StepBenchOptions {
  int64_t steps = 10;  // timed
  int64_t warmup = 3;  // before them
  int64_t probed = 3;  // after them, with the time of every instruction
  // So many others do the same run meanwhile, each by itself: what sharing the machine costs.
  int company = 0;
};

struct StepBenchResult {
  std::vector<double> step_s;         // of the timed steps, on rank 0
  std::vector<double> instruction_s;  // of rank 0's instructions, median of the probed steps
  // The same, mean: where threads outnumber cores a few kernels are interrupted for long, which the
  // median of one kernel does not show.
  std::vector<double> mean_instruction_s;
  double probed_step_s = 0;                       // a probed step as a whole, mean
  std::array<int64_t, kNumArenas> arena_bytes{};  // that rank 0 was given
  int64_t device_bytes = 0;    // that the GPU's driver says this run has taken; 0: no GPU
  int64_t resident_bytes = 0;  // largest resident memory of the process
  double loss = 0;             // of the last step
  std::string graph;           // of rank 0, as Executor says it
  // What all ranks were given, sent and executed, in the shape of plan_json.
  nlohmann::ordered_json measured;
  std::vector<std::string> notes;

  [[nodiscard]] double median_s() const;
};

// Weights are random, and the same on all ranks that share them.
StepBenchResult bench_step(const CompiledRun& run, const StepBenchOptions& options);

}  // namespace tessera
