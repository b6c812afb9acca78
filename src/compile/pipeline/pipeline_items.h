// The order of parts and messages on each rank of a pipeline, from the schedule, from how it cuts
// the work of a stage, and from what the stages hand each other. No graph is needed: a pipeline of
// hundreds of micro-batches is ordered in milliseconds.
#pragma once

#include <cstdint>
#include <vector>

#include "compile/pipeline/pipeline.h"
#include "compile/pipeline/schedule/schedule.h"

namespace tessera {

// How the schedule cuts the work of one stage and micro-batch: not at all (the last stage when its
// backward follows its forward); into forward and backward; into forward, input gradients and
// weight gradients.
enum class StageCut : uint8_t { kWhole, kTwo, kThree };
constexpr int num_parts(StageCut cut) {
  return cut == StageCut::kWhole ? 1 : (cut == StageCut::kTwo ? 2 : 3);
}

// By stage.
std::vector<StageCut> stage_cuts(const PipelineSchedule& schedule);

// By pipeline rank. Of `crossings` only stages and parts are read.
std::vector<std::vector<PipelineItem>> order_items(const PipelineSchedule& schedule,
                                                   const std::vector<StageCut>& cuts,
                                                   const std::vector<StageCrossing>& crossings);

}  // namespace tessera
