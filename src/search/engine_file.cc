#include "search/engine_file.h"

#include <fmt/format.h>

#include <optional>

#include "base/error.h"
#include "base/text/units.h"
#include "plan/estimate_run.h"
#include "plan/memory_limit.h"
#include "plan/run_of_strategy.h"
#include "search/in_parallel.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/trainable.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

// The run as `tessera plan` would read it. Nothing where it refuses it, with `lacks` saying why.
std::optional<RunSpec> read_back(const std::string& toml, const Workload& workload,
                                 const FileReader& read, std::string& lacks) {
  try {
    RunSpec spec = parse_run_file(toml, "plan.toml", {}, read);
    use_cluster_defaults(spec, workload.cluster);
    resolve(spec);
    return spec;
  } catch (const ConfigError& error) {
    lacks = error.what();
    return std::nullopt;
  }
}

void add_plan_flags(const Workload& workload, const Strategy& strategy, const RunSpec& spec,
                    EngineFile& file) {
  if (workload.attention == AttentionKind::kUnfused) return;  // plans have fused attention
  Engine engine;
  engine.numbers = workload.engine;
  try {
    file.plan_step_s = estimate_run(spec, workload.cluster, engine).estimate.time.step_s;
    file.plan_flags = plan_flags_of(workload, strategy);
  } catch (const ConfigError&) {
    file.plan_step_s = 0;  // more than the planner can have
  }
}

// Why our engine cannot run it: its own message says best, memory last.
std::string why_not_run(const RunSpec& spec, const Workload& workload, ScalePlanner& planner,
                        int64_t& peak_bytes) {
  try {
    require_trainable(spec.model);
    peak_bytes = planner.plan(spec).heaviest().total_bytes();
  } catch (const ConfigError& error) {
    return error.what();
  }
  if (peak_bytes <= memory_limit(spec, workload.cluster)) return "";
  return fmt::format("memory: its Programs need {:.1f} GiB",
                     static_cast<double>(peak_bytes) / kGibibyte);
}

}  // namespace

EngineFile engine_file(const EngineNames& names, const Workload& workload, const Strategy& strategy,
                       const FileReader& read, ScalePlanner& planner) {
  EngineFile file;
  file.lacks = unsayable_choice(workload, strategy);
  if (file.lacks.empty() && names.model.preset.empty()) {
    file.lacks = "a model without a name: give --model a preset or a file";
  }
  if (!file.lacks.empty()) return file;
  file.toml = run_file_of(names.model, workload, strategy, names.cluster);
  const std::string toml = run_file_of(names.model, workload, strategy);
  if (const std::optional<RunSpec> spec = read_back(toml, workload, read, file.lacks)) {
    add_plan_flags(workload, strategy, *spec, file);
    file.lacks = why_not_run(*spec, workload, planner, file.peak_bytes);
  }
  if (!file.lacks.empty()) file.toml.clear();
  return file;
}

std::vector<EngineFile> engine_files(const EngineNames& names, const Workload& workload,
                                     std::span<const Strategy> strategies, const FileReader& read,
                                     int threads) {
  std::vector<EngineFile> files(strategies.size());
  std::vector<ScalePlanner> planners(static_cast<size_t>(threads));
  in_parallel(strategies.size(), threads, [&](size_t i, size_t thread) {
    files[i] = engine_file(names, workload, strategies[i], read, planners[thread]);
  });
  return files;
}

}  // namespace tessera
