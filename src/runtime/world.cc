#include "runtime/world.h"

#include "runtime/rank_threads.h"

namespace tessera {

World::World(StepGraph step, WorldOptions options) : World(step, compile_ranks(step), options) {}

World::World(StepGraph step, std::vector<Program> programs, WorldOptions options)
    : step_(std::move(step)),
      programs_(std::move(programs)),
      options_(options),
      // Kernels compute while the comm thread waits.
      local_({.size = static_cast<int>(programs_.size()),
              .timeout = options.comm_timeout,
              .busy_threads = programs_.front().threads + 1,
              .gpu = gpu_options(step_.spec, 0) ? 0 : -1}),
      executors_(programs_.size()) {
  if (options_.executor.gpu) return;
  const ExecutorOptions defaults = executor_options(step_.spec, 0);
  options_.executor.gpu = defaults.gpu;
  options_.executor.cuda_graph = defaults.cuda_graph;
}

World::~World() = default;

void World::run(const std::function<void(int rank, Executor& executor)>& f) {
  run_rank_threads(local_, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    if (executors_[r] == nullptr) {
      executors_[r] =
          std::make_unique<Executor>(step_, programs_[r], local_.endpoint(rank), options_.executor);
    }
    f(rank, *executors_[r]);
  });
}

}  // namespace tessera
