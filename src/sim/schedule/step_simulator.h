// The time of a step from a simulation of its pipeline schedule, stage by stage and message by
// message. Closed forms of bubbles are too good where stages differ or links are slow.
#pragma once

#include <map>
#include <memory>
#include <tuple>

#include "cost/step/cost_model.h"
#include "sim/schedule/program_tape.h"
#include "sim/schedule/schedule_simulator.h"

namespace tessera {

struct SimulatedStep {
  Estimate estimate;  // its time is the simulated one; waiting for messages is part of the bubble
  double closed_form_s = 0;
};

// Serves one workload; remembers the schedules it has seen. One per thread.
class StepSimulator {
 public:
  explicit StepSimulator(Workload workload);

  // Ranks meet at the end of a step to clip gradients, so the whole pipeline counts.
  SimulatedStep simulate(const Strategy& strategy);
  CostModel& model() { return model_; }

 private:
  using ScheduleKey = std::tuple<PipelineKind, int64_t, int64_t, int64_t>;
  struct Played {
    double makespan_s = 0;
    double busiest_s = 0;  // work of the rank that has the most
  };
  Played pipeline(const Strategy& strategy, const PipelineSeconds& price);
  Played play(const ScheduleKey& key, const PipelineTimes& times);

  CostModel model_;
  ScheduleSimulator simulator_;
  // Tapes of the kind that the engine's messages ask for.
  std::map<ScheduleKey, std::unique_ptr<ScheduleTape>> tapes_;
  std::map<ScheduleKey, std::unique_ptr<ProgramTape>> program_tapes_;
};

}  // namespace tessera
