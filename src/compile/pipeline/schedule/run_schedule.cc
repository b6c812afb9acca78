#include "compile/pipeline/schedule/run_schedule.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/error.h"
#include "compile/pipeline/schedule/schedule_csv.h"
#include "spec/run_file/pipeline.h"

namespace tessera {
namespace {

PipelineSchedule schedule_of_file(const ParallelSpec& parallel, int64_t micro_batches) {
  PipelineSchedule schedule = schedule_from_csv(parallel.schedule_csv, parallel.schedule.file());
  require_config(schedule.ranks == parallel.pp,
                 "schedule {} is for pp = {}, but pp = {}; use pp = {}", schedule.name,
                 schedule.ranks, parallel.pp, schedule.ranks);
  require_config(schedule.micro_batches == micro_batches,
                 "schedule {} is for {} micro-batches, but a step has {} (global_batch / "
                 "micro_batch / dp / fsdp); change global_batch",
                 schedule.name, schedule.micro_batches, micro_batches);
  const int64_t stages = parallel.pp * parallel.virtual_stages;
  require_config(parallel.virtual_stages == 0 || stages == schedule.stages,
                 "schedule {} has {} stages, but pp * virtual_stages = {} * {} = {}; leave out "
                 "virtual_stages",
                 schedule.name, schedule.stages, parallel.pp, parallel.virtual_stages, stages);
  return schedule;
}

// Larger numbers are refused by make_schedule, which takes int.
int limited(int64_t value) {
  return static_cast<int>(std::min<int64_t>(value, std::numeric_limits<int>::max()));
}

}  // namespace

PipelineSchedule run_schedule(const ParallelSpec& parallel, int64_t micro_batches) {
  if (parallel.pp == 1) return make_schedule(PipelineKind::k1F1B, 1, 1, limited(micro_batches));
  const std::optional<PipelineKind> kind = parallel.schedule.kind();
  if (!kind) return schedule_of_file(parallel, micro_batches);
  PipelineSchedule schedule =
      make_schedule(*kind, limited(parallel.pp), limited(parallel.virtual_stages),
                    limited(micro_batches), limited(parallel.schedule_group));
  check_schedule(schedule);
  return schedule;
}

}  // namespace tessera
