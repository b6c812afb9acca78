#include "train/session/job.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plan/report/plan_json.h"
#include "train/samples/run_sets.h"
#include "train/state/staging.h"

namespace tessera {

TrainJob prepare_job(const RunSpec& given, const Injection& inject, std::span<const int> ranks) {
  const RunSpec spec = with_end_token(given);
  TrainJob job;
  std::vector<Program> programs;
  if (std::find(ranks.begin(), ranks.end(), 0) != ranks.end()) {
    CompiledRun run = compile_run(spec);
    job.plan = full_plan_json(plan_of(run));
    if (spec.checkpoint.on()) {
      job.plan["checkpoints"] = {{"staging_bytes", planned_staging(spec.checkpoint, run.step)}};
    }
    job.step = std::move(run.step);
    for (const int rank : ranks) {
      programs.push_back(std::move(run.programs[static_cast<size_t>(rank)]));
    }
  } else {
    job.step = build_step(spec, StepKind::kTraining);
    for (const int rank : ranks) programs.push_back(lower(job.step, rank));
  }
  inject_into_programs(inject, programs);
  for (Program& program : programs) {
    const int rank = program.rank;
    job.programs.emplace(rank, std::move(program));
  }
  job.samples = training_samples(spec);
  job.held_out = held_out(spec);
  job.weights = spec.model.hf.empty() ? initial_weights(spec.model, spec.train.seed)
                                      : hf_weights(spec.model.hf, job.step.layout);
  return job;
}

}  // namespace tessera
