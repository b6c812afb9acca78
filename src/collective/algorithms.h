// One function per algorithm, each in a file of its own: writes the steps of one rank. Called only
// for ops that the algorithm supports (schedule.cc holds the table).
#pragma once

#include "collective/schedule_builder.h"

namespace tessera {

void schedule_one_shot(ScheduleBuilder& builder);
void schedule_direct(ScheduleBuilder& builder);
void schedule_naive(ScheduleBuilder& builder);
void schedule_ring(ScheduleBuilder& builder);
void schedule_tree(ScheduleBuilder& builder);
void schedule_doubling(ScheduleBuilder& builder);
void schedule_hierarchical(ScheduleBuilder& builder);

// A call that may be in place sends from here instead of from `in`: for all_to_all, whose results
// arrive where its input still is. Uses a round for the copy if there is one to make.
StepPlace protected_input(ScheduleBuilder& builder);

}  // namespace tessera
