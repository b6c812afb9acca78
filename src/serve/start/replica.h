// One replica of a served model: a generator whose ranks are threads of this process, or processes
// that are started again where one is lost.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "serve/generator.h"
#include "serve/ranks/process_frame_runner.h"
#include "serve/ranks/serve_plan.h"
#include "serve/replicas/restarting_generator.h"
#include "serve/start/start_model.h"

namespace tessera::serve {

struct Replica {
  std::unique_ptr<Generator> generator;
  // What the generator was lost by: not to be asked after it is gone.
  std::function<std::optional<GeneratorLoss>()> gave_up;
};

// How the ranks of a replica are started as processes; `number`: of the replica.
ProcessRunnerOptions process_runner_options(const ServePlan& plan, const StartOptions& options,
                                            int number);

// Each returns when all ranks are ready. `options` as in start_model(), but of this replica alone;
// `plan` is that of options.ranks, whose numbers are those of the plan.
Replica start_threads(const ServePlan& plan, const StartOptions& options, int number);
// The ranks make the plan again, by themselves.
Replica start_processes(const ServePlan& plan, const StartOptions& options, int number);

}  // namespace tessera::serve
