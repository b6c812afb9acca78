#include "search/engine_file.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/units.h"
#include "compile/scale/scale_plan.h"
#include "plan/memory_limit.h"
#include "plan/run_of_strategy.h"
#include "search/in_parallel.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/trainable.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

EngineFile engine_file(const ModelSpec& model, const Workload& workload, const Strategy& strategy,
                       const FileReader& read, ScalePlanner& planner) {
  if (std::string lacks = unsayable_choice(workload, strategy); !lacks.empty())
    return {"", lacks, 0};
  if (model.preset.empty())
    return {"", "a model without a name: give --model a preset or a file", 0};
  EngineFile file{run_file_of(model, workload, strategy), "", 0};
  // Whatever the engine refuses, its own message says best.
  try {
    require_trainable(model);
    RunSpec spec = parse_run_file(file.toml, "plan.toml", {}, read);
    use_cluster_defaults(spec, workload.cluster);
    resolve(spec);
    file.peak_bytes = planner.plan(spec).heaviest().total_bytes();
    const int64_t limit = memory_limit(spec, workload.cluster);
    if (file.peak_bytes > limit) {
      return {"",
              fmt::format("memory: its Programs need {:.1f} GiB",
                          static_cast<double>(file.peak_bytes) / kGibibyte),
              file.peak_bytes};
    }
  } catch (const ConfigError& error) {
    return {"", error.what(), 0};
  }
  return file;
}

}  // namespace

std::vector<EngineFile> engine_files(const ModelSpec& model, const Workload& workload,
                                     std::span<const Strategy> strategies, const FileReader& read,
                                     int threads) {
  std::vector<EngineFile> files(strategies.size());
  std::vector<ScalePlanner> planners(static_cast<size_t>(threads));
  in_parallel(strategies.size(), threads, [&](size_t i, size_t thread) {
    files[i] = engine_file(model, workload, strategies[i], read, planners[thread]);
  });
  return files;
}

}  // namespace tessera
