// Activation memory of a pipeline schedule, exactly: the order of a rank's list decides what is
// alive at one time, whatever the times are. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compile/pipeline/schedule/schedule.h"

namespace tessera {

// Of one micro-batch on one stage.
struct StageBytes {
  int64_t kept = 0;         // from its forward to its backward (B or I)
  int64_t for_weights = 0;  // of that, what a weight gradient (W) still needs after I
};

// By rank: the most bytes that its list keeps alive at one time; one entry of `stages` for each
// stage. Throws Error where they are more than 2^63.
std::vector<int64_t> peak_activations(const PipelineSchedule& schedule,
                                      std::span<const StageBytes> stages);

}  // namespace tessera
