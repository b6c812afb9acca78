#include "train/session/session.h"

#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/failure.h"
#include "comm/local/local_world.h"
#include "launch/rank_failure.h"
#include "runtime/rank_threads.h"
#include "tensor/gpu_memory.h"
#include "train/control.h"
#include "train/machine_defaults.h"
#include "train/session/rank_session.h"
#include "train/state/staging.h"

namespace tessera {
namespace {

constexpr const char* kControlGroup = "control";

void require_room(const TrainJob& job, int gpu) {
  if (job.step.spec.train.device != TrainDevice::kCuda) return;
  std::vector<const Program*> programs;
  for (const auto& [rank, program] : job.programs) programs.push_back(&program);
  require_room_on_gpu(programs, gpu);
}

TrainSummary abort_on_failure(CommWorld& world, const std::function<TrainSummary()>& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    const Failure failure = failure_of(error);
    if (failure.code == ExitCode::kDiverged) {
      world.abort(failure.text);  // of the run, not of a rank
    } else {
      abort_as_rank(world, failure.text);
    }
    throw;
  }
}

}  // namespace

std::chrono::milliseconds comm_timeout(const RunSpec& spec) {
  return std::chrono::milliseconds(std::llround(spec.train.comm_timeout * 1e3));
}

int threads_of_rank(const RunSpec& spec) { return static_cast<int>(spec.train.threads) + 1; }

TrainSummary train_rank(const TrainOptions& options, CommWorld& world) {
  return train_rank(options, world, world);
}

TrainSummary train_rank(const TrainOptions& options, CommWorld& host, CommWorld& gpus) {
  return abort_on_failure(host, [&] {
    const std::unique_ptr<Communicator> control = host.join_all(kControlGroup);
    const RunSpec spec = agree_on_spec(*control, options.spec, options.ranks_on_host);
    const int rank = host.rank();
    const TrainJob job = prepare_job(spec, options.inject, {&rank, 1});
    require_room(job, options.gpu);
    if (options.host_refusal) {
      const int64_t staging =
          planned_staging(spec.checkpoint, job.step).at(static_cast<size_t>(rank));
      require_room_on_hosts(*control, job.programs.at(rank).total_bytes() + staging,
                            options.host_refusal);
    }
    return run_session(options, job, gpus, *control);
  });
}

TrainSummary run_training(const TrainOptions& options) {
  RunSpec spec = options.spec;
  use_machine_defaults(spec);
  std::vector<int> ranks(static_cast<size_t>(spec.parallel.world()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const TrainJob job = prepare_job(spec, options.inject, ranks);
  require_room(job, options.gpu);
  LocalWorldOptions world_options;
  world_options.size = static_cast<int>(ranks.size());
  world_options.timeout = comm_timeout(spec);
  world_options.busy_threads = threads_of_rank(spec);
  if (spec.train.device == TrainDevice::kCuda) world_options.gpu = options.gpu;
  LocalWorld local(world_options);
  TrainSummary summary;
  run_rank_threads(local, [&](int rank) {
    CommWorld& world = local.endpoint(rank);
    TrainSummary mine = abort_on_failure(world, [&] {
      const std::unique_ptr<Communicator> control = world.join_all(kControlGroup);
      return run_session(options, job, world, *control);
    });
    if (rank == 0) summary = std::move(mine);
  });
  return summary;
}

}  // namespace tessera
