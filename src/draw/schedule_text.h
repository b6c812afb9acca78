// A schedule as text: time runs to the right, one row per rank. A cell is a pass and a micro-batch
// ("F3"; "F1.3" with the stage where ranks hold several); a pass that takes longer is followed by
// dashes, and a dot is a unit of idle time. Long timelines go on in further blocks of rows.
//
//   time   0  1  2  3  4  5  6  7
//   rank 0 F0 F1 .  .  B0--- B1---
//   rank 1 .  F0 B0--- F1 B1---
#pragma once

#include <string>

#include "sim/schedule/timeline.h"

namespace tessera {

// Lines have at most `width` characters, or one unit of time where that is more.
std::string schedule_text(const SimulatedSchedule& simulated, size_t width = 120);

// A line per rank, however long the schedule is: a character is a slice of time, with the letter of
// what it is most of (F, B, I, W; a dot: idle). As wide as `columns`, or as suits most where that
// is 0. The end of the time axis is labelled `end`.
std::string schedule_rows(const SimulatedSchedule& simulated, const std::string& end,
                          size_t columns = 0);

// What each rank does and keeps: stages, busy and idle time, live micro-batches.
std::string schedule_table(const SimulatedSchedule& simulated);

}  // namespace tessera
