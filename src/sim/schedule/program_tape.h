// A pipeline schedule with its messages as Programs send them: a rank has one stream for its
// actions and one for its messages, each in the one order that the compiler gives them. A message
// occupies both of its ranks from the moment that both are free, the value is made and the receiver
// has room for it; a stage cannot make its next output while the memory for it is still being sent.
// Where links are fast this is what schedule_simulator.h plays; where they are slow, messages stand
// in each other's way, and in that of messages in the other direction. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "compile/pipeline/pipeline_items.h"
#include "sim/schedule/schedule_simulator.h"

namespace tessera {

class ProgramTape {
 public:
  // Takes a schedule that make_schedule made, or that check_schedule accepts.
  explicit ProgramTape(const PipelineSchedule& schedule);

  // The same rules as the Programs of the schedule in sim/replay, with kernels of one action as
  // one.
  [[nodiscard]] PipelineOutcome run(const PipelineTimes& times) const;

  struct Step {
    uint32_t rank = 0;      // of a message, the sender
    uint32_t receiver = 0;  // of an action, its rank
    uint32_t cost = 0;      // of an action, kParts for each stage; of a message, its boundary
    bool is_message = false;
    bool is_gradient = false;  // of a message: it goes to the stage before
    // Steps that must have ended; 0: none, so numbers count from 1.
    std::array<uint32_t, 2> waits = {0, 0};
  };
  [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }

 private:
  friend class ProgramTapeBuilder;
  static constexpr size_t kParts = 3;

  int ranks_ = 1, stages_ = 1;
  std::vector<int> rank_of_stage_;
  std::vector<StageCut> cuts_;
  std::vector<Step> steps_;  // in an order in which every step follows what it waits for
};

}  // namespace tessera
