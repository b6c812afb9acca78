// A simulated step as a picture: time runs to the right, a row per class of ranks, a colour for
// each pass, red where kernels wait for communication, blank where the rank is idle.
#pragma once

#include <string>

#include "sim/replay/step_activity.h"

namespace tessera {

// `title` says what was simulated.
std::string step_svg(const StepTimeline& timeline, const std::vector<RankActivity>& activities,
                     const std::string& title);

}  // namespace tessera
