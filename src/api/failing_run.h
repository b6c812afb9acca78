// The request "simulate" with "mtbf": a month of the run instead of a step, with its failures,
// saves, restarts and spares.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/simulate.h"
#include "cost/formulas/failure_replay.h"
#include "plan/failure_plan.h"

namespace tessera {

// What cannot be said together with "mtbf", and what says nothing without it.
void check_failing(const SimulateQuery& query, bool traced = false);

class FailingRunSimulation {
 public:
  FailingRunSimulation(const SimulateQuery& query, const RunSpec& spec, std::vector<Guess> guesses,
                       const Surroundings& around);

  [[nodiscard]] std::string text(size_t columns = 0) const;
  [[nodiscard]] nlohmann::ordered_json json() const;
  [[nodiscard]] std::string svg() const;
  [[nodiscard]] const FailureReplay& replay() const { return replay_; }

 private:
  void read_step(const SimulateQuery& query, const RunSpec& spec, const Surroundings& around);
  void choose_interval(const FailingFlags& flags);
  [[nodiscard]] std::string title() const;
  [[nodiscard]] std::string run_text() const;  // failures, saves and spares, without a title
  [[nodiscard]] nlohmann::ordered_json spans_json() const;

  std::vector<Guess> guesses_;
  std::string title_;
  nlohmann::ordered_json head_;  // of the simulated step: world, mesh, parameters, cluster
  double step_s_ = 0, step_tokens_ = 0;
  int64_t devices_ = 0;
  double days_ = 0;
  FailurePlan plan_;
  FailingRun run_;
  int64_t seed_ = 0;
  FailureReplay replay_;
};

}  // namespace tessera
