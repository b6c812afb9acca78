// Asynchronous pipelines (PipeDream): every stage updates its weights between the micro-batches of
// a step, without waiting for the other stages.
#pragma once

#include <cstdint>

#include "spec/run_spec.h"

namespace tessera {

// Whether weights change within a step.
bool is_asynchronous(const ParallelSpec& parallel);

// Micro-batches whose gradients make up one update: all of the step unless the schedule is
// asynchronous. pipedream: 1. pipedream-2bw: schedule_group, by default the smallest divisor of the
// step's micro-batches that is at least pp. `spec` has a batch that resolve() accepts.
int64_t micro_batches_per_update(const RunSpec& spec);
// The same of a schedule that is on its own, with as many stages as ranks where it is asynchronous.
int64_t micro_batches_per_update(PipelineKind kind, int64_t micro_batches, int64_t stages);

// Throws ConfigError for what an asynchronous schedule cannot have.
void check_asynchronous(const RunSpec& spec);

}  // namespace tessera
