// Pipeline schedules as lists that a program can write: what each pipeline rank does, in order.
// Nothing in a list sends or receives; that follows from it. A plan, a simulation or a training
// takes one as a file:
//
//   {{"schedule", "mine.csv"}, {"files", {{"mine.csv", tessera::schedule_csv(mine)}}}, …}
#pragma once

#include <string>
#include <vector>

#include "tessera/answer.h"

namespace tessera {

struct ScheduleCell {
  char pass = 'F';  // F forward, B backward; or B in two halves: I input gradient, W weights'
  int stage = 0;
  int micro_batch = 0;
};

struct Schedule {
  std::vector<int> rank_of_stage;                // the model is cut into stages, in order
  std::vector<std::vector<ScheduleCell>> ranks;  // by pipeline rank
};

// One that has a name: gpipe, 1f1b, zb-v, … `virtual_stages` 0: as many as it has by itself.
Schedule named_schedule(const std::string& name, int pp, int micro_batches, int virtual_stages = 0);

// The text that `parallel.schedule = "mine.csv"` reads (docs/pipeline.md). Throws Refusal, with the
// cell at fault marked, unless every stage has every micro-batch once, forward before backward, on
// the rank that holds it, and no rank waits for ever.
std::string schedule_csv(const Schedule& schedule);
Schedule schedule_of_csv(const std::string& text);

// Times where F, I and W take 1 and messages nothing: as `tessera simulate --schedule-only --json`.
Json schedule_times(const Schedule& schedule);
std::string schedule_picture(const Schedule& schedule);

}  // namespace tessera
