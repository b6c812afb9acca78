// The pipeline schedules that a run file can name. What they are is in
// compile/pipeline/schedule/named.
#pragma once

#include <cstdint>
#include <span>

#include "spec/run_file/run_file.h"
#include "spec/run_spec.h"

namespace tessera {

// What such a file says in its line TESSERA_SCHEDULE.
struct ScheduleKind {
  PipelineKind kind = PipelineKind::k1F1B;
  int64_t virtual_stages = 1;       // stages of each rank
  bool any_virtual_stages = false;  // that number is only the default
  // Weights are updated between the micro-batches of a step.
  bool asynchronous = false;
};

// In the order of PipelineKind.
std::span<const ScheduleKind> schedule_kinds();
const ScheduleKind& schedule_kind(PipelineKind kind);

// Reads the file that parallel.schedule names, if it names one, into schedule_csv.
void read_schedule_file(ParallelSpec& parallel, const FileReader& read_file);

// Fills virtual_stages and refuses stages that the schedule does not have.
// What else a schedule asks of the numbers of ranks and micro-batches, make_schedule checks.
void resolve_schedule(ParallelSpec& parallel);

}  // namespace tessera
