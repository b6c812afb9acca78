// A schedule as a picture: time runs to the right, one row per rank, a colour for each pass, paler
// for the later stages of a rank, the micro-batch in the box. The same schedule gives the same
// text.
#pragma once

#include <string>

#include "sim/schedule/timeline.h"

namespace tessera {

std::string schedule_svg(const SimulatedSchedule& simulated);
// The same of a schedule whose times are seconds, with a title that says of what.
std::string schedule_svg_in_seconds(const SimulatedSchedule& simulated, const std::string& title);

}  // namespace tessera
