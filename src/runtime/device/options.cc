#include "runtime/device/options.h"

namespace tessera {

RankOptions rank_options(const RunSpec& spec, int gpu) {
  RankOptions options;
  options.threads = static_cast<int>(spec.train.threads);
  if (spec.train.device == TrainDevice::kCuda) {
    options.gpu = GpuOptions{gpu, spec.train.deterministic, spec.train.mark_every};
  }
  return options;
}

ExecutorOptions executor_options(const RunSpec& spec) {
  ExecutorOptions options;
  options.cuda_graph = spec.train.cuda_graph;
  return options;
}

}  // namespace tessera
