#include "runtime/world.h"

#include "runtime/rank_threads.h"

namespace tessera {
namespace {

RankOptions options_of(const StepGraph& step, const Program& program) {
  RankOptions options = rank_options(step.spec, /*gpu=*/0);
  options.threads = program.threads;
  return options;
}

}  // namespace

World::World(StepGraph step, WorldOptions options) : World(step, compile_ranks(step), options) {}

World::World(StepGraph step, std::vector<Program> programs, WorldOptions options)
    : step_(std::move(step)),
      programs_(std::move(programs)),
      options_(options),
      rank_options_(options_of(step_, programs_.front())),
      // Kernels compute while the comm thread waits.
      local_({.size = static_cast<int>(programs_.size()),
              .timeout = options.comm_timeout,
              .busy_threads = rank_options_.threads + 1,
              .gpu = rank_options_.gpu ? 0 : -1}),
      ranks_(programs_.size()),
      executors_(programs_.size()) {}

World::~World() = default;

void World::create_executor(int rank) {
  const auto r = static_cast<size_t>(rank);
  ExecutorOptions options = executor_options(step_.spec);
  options.timeout = options_.stream_timeout;
  ranks_[r] = std::make_unique<Rank>(local_.endpoint(rank), rank_options_);
  executors_[r] = std::make_unique<Executor>(*ranks_[r], step_, programs_[r], options);
}

void World::run(const std::function<void(int rank, Executor& executor)>& f) {
  run_rank_threads(local_, [&](int rank) {
    std::unique_ptr<Executor>& executor = executors_[static_cast<size_t>(rank)];
    if (executor == nullptr) create_executor(rank);
    f(rank, *executor);
  });
}

}  // namespace tessera
