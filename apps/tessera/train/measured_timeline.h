// Measured steps in the form that simulated ones have, for everything that draws those.
#pragma once

#include <vector>

#include "sim/replay/step_replay.h"
#include "train/report/step_trace.h"

namespace tessera {

// Every rank is a class of its own; the clock starts with the first instruction of the first step.
// Communication is under way from when the last rank of its group has come to it; until then it
// waits. `traced` must outlive the result.
std::vector<StepTimeline> measured_timelines(const TracedSteps& traced);

}  // namespace tessera
