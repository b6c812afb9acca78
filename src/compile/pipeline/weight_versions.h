// Which version of its weights a stage uses for each micro-batch, and when it makes the next one.
//
// A step begins with version 0; update k makes version k from version k - 1. With a synchronous
// schedule the step has one update, after its last micro-batch. With an asynchronous one a stage
// updates after the last backward of every group of micro-batches, while others are still between
// their forward and their backward: those keep the version that their forward has read, so that
// several versions lie in memory at one time.
#pragma once

#include <cstdint>
#include <vector>

#include "compile/pipeline/schedule/schedule.h"

namespace tessera {

struct Program;

// What the forward of a micro-batch reads; its backward reads the same.
enum class VersionRule : uint8_t {
  kNewest,     // the version that the stage has made last
  kOneBehind,  // group j reads version j - 1, on every stage: one less than updates in time give
};

struct StageVersions {
  int updates = 1;              // in a step
  int slots = 1;                // copies of the weights in memory at one time
  std::vector<int> update_of;   // by micro-batch: the update that its gradient is part of, from 1
  std::vector<int> version_of;  // by micro-batch: what it reads

  // By version: the copy that holds it. The last version goes where the next step expects its
  // version 0.
  std::vector<int> slot_of;
};

// By stage, from the order of the schedule. `group` divides the micro-batches.
std::vector<StageVersions> plan_versions(const PipelineSchedule& schedule, int group,
                                         VersionRule rule);

// Replays what the instructions do to the weights: all reads of a micro-batch must meet one
// version, the one that `versions` says, and the last version must end up where the step began.
// Throws InternalError naming the instruction.
void check_versions(const Program& program, const StageVersions& versions);

}  // namespace tessera
