#include "runtime/world.h"

#include "base/error.h"
#include "base/text/text.h"
#include "comm/shm/host_memory.h"
#include "runtime/rank_threads.h"

namespace tessera {
namespace {

RankOptions options_of(const StepGraph& step, const Program& program) {
  RankOptions options = rank_options(step.spec, /*gpu=*/0);
  options.threads = program.threads;
  return options;
}

}  // namespace

void require_room_on_host(std::span<const Program> programs) {
  int64_t needed = 0;
  for (const Program& program : programs) needed += program.total_bytes();
  const HostMemory memory = host_memory();
  if (needed <= memory.available_bytes) return;
  throw Error(
      fmt::format("does not fit: {} in one process need {}, and {} of {} are free; use a smaller "
                  "model, micro-batch or sequence",
                  count_of(static_cast<int64_t>(programs.size()), "rank"), human_bytes(needed),
                  human_bytes(memory.available_bytes), human_bytes(memory.total_bytes)),
      ExitCode::kDoesNotFit);
}

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
      executors_(programs_.size()) {
  if (!rank_options_.gpu) require_room_on_host(programs_);
}

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
