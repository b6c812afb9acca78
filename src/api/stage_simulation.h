// A step that has too many instructions to simulate them one by one, or that no Program computes:
// its pipeline is played stage by stage, with the times that the cost model gives the stages.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/simulate.h"
#include "plan/estimate_run.h"
#include "sim/schedule/timeline.h"

namespace tessera {

// Why the step of a run is simulated by its stages; empty: by its Programs. ConfigError where it
// would be by stages and something was asked that only Programs have: `traced`, a slow or a lost
// rank.
std::string why_by_stages(const SimulateQuery& query, const RunSpec& spec, bool traced = false);

// The pipeline, and what comes after it once in a step.
struct PlayedStages {
  SimulatedSchedule pipeline;  // in seconds
  double sums_s = 0;           // over replicas: what nothing hides
  double optimizer_s = 0;
  [[nodiscard]] double end_s() const { return pipeline.facts.makespan + sums_s + optimizer_s; }
};

class StageSimulation {
 public:
  StageSimulation(const SimulateQuery& query, RunSpec spec, std::vector<Guess> guesses,
                  const Surroundings& around, std::string why);

  [[nodiscard]] std::string text(size_t columns = 0) const;
  [[nodiscard]] nlohmann::ordered_json json() const;
  // The run and the machine, with the model and the batch.
  [[nodiscard]] std::string picture_title() const;
  [[nodiscard]] const std::vector<Guess>& guesses() const { return guesses_; }
  // ConfigError where there is no pipeline to draw, or one of too many passes.
  [[nodiscard]] std::string svg() const;

  [[nodiscard]] const RunSpec& spec() const { return spec_; }
  [[nodiscard]] const RunEstimate& priced() const { return priced_; }
  [[nodiscard]] const std::string& why() const { return why_; }
  // Also where there is one stage. ConfigError for one of too many passes.
  [[nodiscard]] PlayedStages played() const;

 private:
  [[nodiscard]] std::string title() const;
  [[nodiscard]] std::string pipeline_text(size_t columns) const;

  RunSpec spec_;
  std::vector<Guess> guesses_;
  std::string why_;
  SimulatedMachine machine_;
  std::string engine_;
  RunEstimate priced_;
  std::optional<SimulatedSchedule> pipeline_;  // in seconds; none: one stage, or too many passes
};

}  // namespace tessera
