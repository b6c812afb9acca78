// What a rank and the Programs on it are told when they are made.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "spec/run_spec.h"

namespace tessera {

struct GpuOptions {
  int device = 0;
  bool deterministic = true;
  int64_t mark_every = 0;  // instructions from one mark to the next; 0: 1, in a graph 8
};

struct RankOptions {
  int threads = 1;                               // that compute
  std::optional<GpuOptions> gpu = std::nullopt;  // where the kernels run; none: on the CPU
};

// A fault provoked on purpose: the GPU touches memory that is not there.
struct GpuFault {
  std::string instruction;  // before the first of that name
  int64_t step = 1;
};

struct ExecutorOptions {
  std::chrono::milliseconds timeout{120'000};  // longest wait for another stream
  CudaGraph cuda_graph = CudaGraph::kAuto;     // as train.cuda_graph
  std::optional<GpuFault> fault;               // for tests
};

// As the run says; GPU `gpu` where it wants one.
RankOptions rank_options(const RunSpec& spec, int gpu);
ExecutorOptions executor_options(const RunSpec& spec);

}  // namespace tessera
