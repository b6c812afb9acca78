#include "train/preflight/run_memory.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "plan/report/misfit_text.h"
#include "train/machine_defaults.h"
#include "train/state/staging.h"

namespace tessera {
namespace {

// What is too large to compile and has no templates is compiled after all, as its ranks will do.
Plan plan_anyway(const RunSpec& spec) {
  try {
    return make_plan({.spec = spec});
  } catch (const ConfigError&) {
    return plan_of(compile_run(spec));
  }
}

}  // namespace

PlannedMemory planned_memory(const RunSpec& spec) {
  PlannedMemory memory;
  for (const PlannedClass& one : plan_anyway(spec).classes) {
    memory.all_ranks += one.ranks * one.total_bytes();
    memory.fullest_rank = std::max(memory.fullest_rank, one.total_bytes());
  }
  if (!spec.checkpoint.on()) return memory;
  for (const int64_t bytes :
       planned_staging(spec.checkpoint, build_step(spec, StepKind::kTraining))) {
    memory.staging += bytes;
  }
  return memory;
}

Plan plan_within(const RunSpec& spec, const OpenSettings& open, const SharedMemory& shared) {
  const int64_t room = std::max<int64_t>(0, shared.memory.available_bytes - shared.other_bytes);
  std::string limit_of =
      fmt::format("{}, and {} of them are free",
                  shared_memory_text(shared.memory.total_bytes, shared.memory, shared.ranks),
                  human_bytes(shared.memory.available_bytes));
  if (shared.other_bytes > room / 100) {
    limit_of += fmt::format(", {} for processes, text and copies for checkpoints",
                            human_bytes(shared.other_bytes));
  }
  return plan_within(spec, open, room / shared.ranks, limit_of);
}

Plan plan_within(const RunSpec& spec, const OpenSettings& open, int64_t limit_bytes,
                 const std::string& limit_of) {
  PlanRequest request{.spec = spec, .limit_of = limit_of, .open = open, .advise = true};
  request.spec.cluster.memory_gib =
      static_cast<double>(std::max<int64_t>(1, limit_bytes)) / kGibibyte;
  return make_plan(request);
}

void require_room_here(const RunSpec& spec) {
  RunSpec here = spec;
  use_machine_defaults(here);
  if (here.train.device == TrainDevice::kCuda) return;
  const SharedMemory shared{.ranks = here.parallel.world(),
                            .planned_bytes = planned_memory(here).all_ranks,
                            .other_bytes = kProcessBytes,
                            .memory = host_memory()};
  if (shared.suffices()) return;
  throw Error(misfit_text(plan_within(here, {}, shared), set_flags), ExitCode::kDoesNotFit);
}

}  // namespace tessera
