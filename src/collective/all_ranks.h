// A collective on all of its ranks at once.
#pragma once

#include <span>
#include <vector>

#include "collective/schedule.h"

namespace tessera {

// The schedules of all ranks (`request.rank` is not used; not for all_to_all_v).
std::vector<CollectiveSchedule> make_schedules(ScheduleRequest request);

// Rounds in which any rank sends.
int num_steps(std::span<const CollectiveSchedule> schedules);

}  // namespace tessera
