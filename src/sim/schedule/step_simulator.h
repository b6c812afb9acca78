// The time of a step from a simulation of its pipeline schedule, stage by stage and message by
// message. Closed forms of bubbles are too good where stages differ or links are slow.
#pragma once

#include <memory>

#include "cost/step/cost_model.h"
#include "sim/schedule/schedule_simulator.h"
#include "sim/schedule/schedule_tapes.h"

namespace tessera {

struct SimulatedStep {
  Estimate estimate;  // its time is the simulated one; waiting for messages is part of the bubble
  double closed_form_s = 0;
};

// Serves one workload; remembers the schedules it has seen. One per thread.
class StepSimulator {
 public:
  // `tapes`: of whoever has simulated other workloads too, and outlives it; null: its own.
  explicit StepSimulator(Workload workload, ScheduleTapes* tapes = nullptr);

  // Ranks meet at the end of a step to clip gradients, so the whole pipeline counts.
  SimulatedStep simulate(const Strategy& strategy);
  CostModel& model() { return model_; }

 private:
  struct Played {
    double makespan_s = 0;
    double busiest_s = 0;  // work of the rank that has the most
  };
  Played pipeline(const Strategy& strategy, const PipelineSeconds& price);
  Played play(const ScheduleTapes::Key& key, const PipelineTimes& times);

  CostModel model_;
  ScheduleSimulator simulator_;
  std::unique_ptr<ScheduleTapes> own_tapes_;
  ScheduleTapes* tapes_;
};

}  // namespace tessera
