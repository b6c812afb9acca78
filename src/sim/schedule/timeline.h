// A pipeline schedule with its times and figures: what the text, the picture and the JSON show.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "compile/pipeline/schedule/replay.h"
#include "compile/pipeline/schedule/schedule.h"

namespace tessera {

struct SimulatedSchedule {
  PipelineSchedule schedule;
  ScheduleTimeline timeline;
  ScheduleFacts facts;
};

SimulatedSchedule simulate_schedule(const PipelineSchedule& schedule, const PassCosts& costs = {});

// "zb-v: 4 ranks, 8 stages, 8 micro-batches"
std::string schedule_title(const PipelineSchedule& schedule);
// "bubble 5.9 %"
std::string bubble_text(const ScheduleFacts& facts);

// The stages of a rank, in order, and which of them `stage` is, from 0.
std::vector<int> stages_of_rank(const PipelineSchedule& schedule, int rank);
int chunk_of_stage(const PipelineSchedule& schedule, int stage);

nlohmann::ordered_json schedule_json(const SimulatedSchedule& simulated);

}  // namespace tessera
