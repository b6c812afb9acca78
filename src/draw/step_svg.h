// A simulated step as a picture: time runs to the right, a row per class of ranks, a colour for
// each pass, red where kernels wait for communication, grey where the rank is idle. Passes that are
// too narrow to be seen one by one are drawn as shares of the time. After a rank was lost: hatched,
// and who waits for whom.
#pragma once

#include <string>

#include "sim/replay/step_activity.h"

namespace tessera {

// `title` says what was simulated; the time of the step, or the loss of a rank, is added.
std::string step_svg(const StepTimeline& timeline, const std::vector<RankActivity>& activities,
                     const std::string& title);

}  // namespace tessera
