// Ranks as processes of this host, which are this program again.
#include <utility>

#include "base/error.h"
#include "serve/engine/engine.h"
#include "serve/ranks/frame_trace.h"
#include "serve/start/rank_task.h"
#include "serve/start/replica.h"
#include "serve/start/trace_file.h"

namespace tessera::serve {

ProcessRunnerOptions process_runner_options(const ServePlan& plan, const StartOptions& options,
                                            int number) {
  ProcessRunnerOptions runner;
  RankProcessesOptions& processes = runner.processes;
  processes.ranks = plan.world();
  processes.threads_per_rank = static_cast<int>(plan.options.threads);
  processes.first_place = number * plan.world();
  processes.places = options.replicas * plan.world();
  processes.executable = options.program;
  processes.arguments = {"tessera"};
  processes.environment = options.environment;
  if (options.replicas > 1) processes.name = fmt::format("replica {} ", number);
  runner.task = {.text = task_of(plan.options),
                 .shape = plan.shape,
                 .times = !options.trace.empty(),
                 .timeout = plan.options.timeout};
  runner.sampling_rank = plan.sampling_rank();
  runner.on_state = options.say;
  return runner;
}

namespace {

GeneratorLoss loss_of(const RankVerdict& verdict) {
  return {.reason = verdict.message,
          .code = static_cast<ExitCode>(verdict.exit_code),
          .curable = verdict.curable};
}

std::unique_ptr<Generator> start_generation(ProcessRunnerOptions runner, const StartOptions& start,
                                            int replica,
                                            const RestartOptions::Generation& generation) {
  runner.processes.generation = generation.number;
  runner.cancelled = [outer = start.cancelled, inner = generation.cancelled] {
    return inner() || (outer && outer());
  };
  runner.on_lost = [alarm = generation.alarm](const RankVerdict& verdict) {
    alarm(loss_of(verdict));
  };
  const int ranks = runner.processes.ranks;
  auto processes = std::make_unique<ProcessFrameRunner>(std::move(runner));
  std::unique_ptr<FrameRunner> frames;
  if (start.trace.empty()) {
    frames = std::move(processes);
  } else {
    const std::filesystem::path path = trace_path(start.trace, replica, generation.number);
    frames = std::make_unique<TracingFrameRunner>(std::move(processes),
                                                  make_trace_file(path, ranks, start.say));
  }
  return std::make_unique<Engine>(
      std::move(frames), EngineOptions{.batch = start.batch, .most_waiting = start.most_waiting});
}

}  // namespace

Replica start_processes(const ServePlan& plan, const StartOptions& options, int number) {
  RestartOptions restart;
  restart.restarts = options.restarts;
  restart.make = [runner = process_runner_options(plan, options, number), options,
                  number](const RestartOptions::Generation& generation) {
    return start_generation(runner, options, number, generation);
  };
  restart.say = options.say;
  if (options.say && options.replicas > 1) {
    restart.say = [say = options.say, number](const std::string& text) {
      say(fmt::format("replica {}: {}", number, text));
    };
  }
  auto generator = std::make_unique<RestartingGenerator>(std::move(restart));
  const RestartingGenerator* seen = generator.get();
  return {std::move(generator), [seen] { return seen->gave_up(); }};
}

}  // namespace tessera::serve
