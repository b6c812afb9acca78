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

// How an algorithm moves one block per rank. What comes after `reduce` is in another round.
struct BlockMoves {
  // Block j of everybody's `in` is summed into `sum` on rank j.
  void (*reduce)(ScheduleBuilder& builder, const BlockLayout& layout, StepPlace sum);
  // `mine` of rank j becomes block j of everybody's `out`.
  void (*gather)(ScheduleBuilder& builder, const BlockLayout& layout, StepPlace mine);
};
// The ops that are made of the two: reduce_scatter, all_gather, and all_reduce, which is one after
// the other.
void schedule_blocks(ScheduleBuilder& builder, const BlockMoves& moves);

}  // namespace tessera
