// From a run file to the schedule of its pipeline.
#pragma once

#include "compile/pipeline/schedule/schedule.h"
#include "spec/run_spec.h"

namespace tessera {

// The schedule of `parallel` for this many micro-batches, checked. A pipeline of one rank has one
// stage and runs micro-batch after micro-batch, whatever parallel.schedule says.
// Throws ConfigError for numbers that the schedule cannot have, or that a CSV file does not.
PipelineSchedule run_schedule(const ParallelSpec& parallel, int64_t micro_batches);

}  // namespace tessera
