// Whether a run fits where all its ranks are to be: in the memory of this machine, and of its GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "launch/join/rank_mode.h"
#include "train/preflight/run_memory.h"

namespace tessera {

struct LocalRun {
  const RunSpec& spec;  // must have gone through resolve(), with its device chosen
  RankMode mode = RankMode::kThreads;
  int64_t hosts = 1;       // that have the ranks, as many each: this one is to hold its share
  int64_t text_bytes = 0;  // that each process keeps: check_inputs()
  // What the run leaves open, and what to say of a plan that does not fit. Asked only then.
  std::function<OpenSettings()> open;
  std::function<std::string(const Plan&)> misfit;
};

struct LocalMemory {
  int64_t planned_bytes = 0;  // of all ranks
  HostMemory memory = {};
  std::string shortage;  // why the run does not fit; empty: it does
};

LocalMemory look_at_memory(const LocalRun& run);

// Throws ConfigError where train.device is "cuda" and the GPU that ranks as threads share is not
// there.
void require_gpu_for_threads(const RunSpec& spec);

}  // namespace tessera
