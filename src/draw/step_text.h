// A simulated step as text and JSON: a line for every class of ranks, time running to the right,
// and a table of where the time of each goes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sim/replay/step_activity.h"

namespace tessera {

// A character is a slice of time: F forward, B backward, I input gradients, W weight gradients, U
// update, - communication that kernels wait for, . idle; whatever there is most of. `width` is that
// of the time; where `columns` says how wide a line may be, what labels leave of it.
std::string step_timeline_text(const StepTimeline& timeline,
                               const std::vector<RankActivity>& activities, size_t width = 100,
                               size_t columns = 0);

// Compute, exposed communication of every group and idle time, in time and percent.
std::string step_table(const StepTimeline& timeline, const std::vector<RankActivity>& activities);

// Who waits for whom after a rank was lost; empty where none was.
std::string lost_text(const StepTimeline& timeline);

nlohmann::ordered_json step_json(const StepTimeline& timeline,
                                 const std::vector<RankActivity>& activities);

// "12.3 ms": three digits and a unit that suits.
std::string seconds_text(double seconds);

}  // namespace tessera
