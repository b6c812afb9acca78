// A step that was simulated by its stages as marks.
#pragma once

#include <utility>
#include <vector>

#include "api/show/timeline/marks.h"
#include "api/stage_simulation.h"

namespace tessera {

// What a pipeline rank does: its passes, each with its collectives, then the sums over replicas
// that nothing hides, then the optimizer. Time without a mark is idle.
std::vector<MarkRow> stage_marks(const PlayedStages& played, int pipeline_rank, Labels& labels);

// Micro-batches of a pipeline rank between their forward and their last backward: how many from a
// time on.
std::vector<std::pair<double, int>> live_micro_batches(const PlayedStages& played,
                                                       int pipeline_rank);

}  // namespace tessera
