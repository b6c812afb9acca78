// The request "simulate": what every rank does when in a training step, or the pipeline schedule
// alone.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "api/split.h"
#include "api/surroundings.h"
#include "compile/step.h"
#include "cost/engine/engine.h"
#include "cost/hardware/cluster.h"
#include "sim/replay/contention.h"
#include "sim/replay/rank_classes.h"
#include "sim/replay/step_activity.h"
#include "sim/schedule/timeline.h"

namespace tessera {

// What is asked of a run that fails now and then; times as people write them, empty: chosen or
// guessed.
struct FailingFlags {
  std::string mtbf = "";        // between failures of one device; empty: a single step is simulated
  double days = 30;             // of the clock
  std::string save_every = "";  // a time, or a number of steps; empty: the best
  std::string save = "", restart = "";  // as of a plan (plan/failure_plan.h)
  int64_t spares = -1;                  // -1: one is always there
  std::string repair = "";              // until what failed is a spare again
  int64_t seed = 1;                     // of the failures
  bool operator==(const FailingFlags&) const = default;
};

struct SimulateQuery {
  SimulateQuery();

  RunSource source = {};
  SplitFlags split;                    // a model and its split instead of a run file, or over one
  std::string cluster = "";            // name in the catalogue or file; empty: by train.device
  std::vector<std::string> slow = {};  // "rank=3,factor=1.3"
  std::string lost = "";               // "rank=2,at=0.5"
  bool no_contention = false;          // kernels keep their speed beside communication
  bool all_ranks = false;              // also those that do the same as others
  bool schedule_only = false;          // the pipeline schedule without its step
  FailingFlags failing = {};           // a month of steps instead of one
};
SimulateQuery simulate_query(const nlohmann::json& request);
// All keys but schedule_only and those of failures, for requests that simulate a whole step.
void read_simulated(Fields& fields, SimulateQuery& query);

// The cluster that is simulated, where a flag, a setting or the run file names one; else empty.
std::string simulated_cluster(const SimulateQuery& query, const Surroundings& around);
// With its recipe, where it names one: what a simulation is asked then.
SimulateQuery with_recipe(SimulateQuery query, const Surroundings& around,
                          std::vector<Guess>& guesses);

// The run that is simulated, resolved; what was filled in is added to `guesses`.
RunSpec load_simulated(const SimulateQuery& query, const Surroundings& around,
                       std::vector<Guess>& guesses);

// The machine: as many devices as there are ranks. Who named none gets a guess.
struct SimulatedMachine {
  Cluster named;  // the whole of it
  Cluster used;
};
SimulatedMachine simulated_machine(const SimulateQuery& query, const RunSpec& spec,
                                   const Surroundings& around, std::vector<Guess>& guesses);

std::string guesses_text(const std::vector<Guess>& guesses);

// ConfigError for a schedule alone together with what only a step has.
void check_schedule_alone(const SimulateQuery& query, bool traced = false);

SimulatedSchedule simulate_schedule_of(const RunSpec& spec);
// `columns`: of the terminal that it is for; 0: any.
std::string schedule_report_text(const SimulatedSchedule& simulated, size_t columns = 0);
nlohmann::ordered_json schedule_report_json(const SimulatedSchedule& simulated);

// A whole step of all ranks. It stays where it is: its timeline points into it.
class StepSimulation {
 public:
  StepSimulation(const SimulateQuery& query, RunSpec spec, std::vector<Guess> guesses,
                 const Surroundings& around);
  StepSimulation(const StepSimulation&) = delete;
  StepSimulation& operator=(const StepSimulation&) = delete;

  [[nodiscard]] const StepTimeline& timeline() const { return timeline_; }
  [[nodiscard]] const StepGraph& step() const { return step_; }
  [[nodiscard]] const std::vector<RankActivity>& activities() const { return activities_; }
  [[nodiscard]] std::string title() const;  // the run and the machine
  // With the model and the batch: what a picture has to say by itself.
  [[nodiscard]] std::string picture_title() const;
  [[nodiscard]] std::string digest() const;  // of the first Program
  [[nodiscard]] const std::vector<Guess>& guesses() const { return guesses_; }
  [[nodiscard]] const SimulatedMachine& machine() const { return machine_; }

  // Timelines have at most as many characters as `columns`; 0: a width that suits most.
  [[nodiscard]] std::string text(size_t columns = 0) const;
  [[nodiscard]] nlohmann::ordered_json json() const;

 private:
  [[nodiscard]] std::string slow_text() const;
  [[nodiscard]] std::string contention_text() const;
  [[nodiscard]] nlohmann::ordered_json contention_json() const;
  [[nodiscard]] double tokens_per_s() const;

  std::vector<Guess> guesses_;
  Engine engine_;
  Contention contention_;
  bool shows_contention_;
  SimulatedMachine machine_;
  StepGraph step_;
  RankPrograms programs_;
  StepTimeline timeline_;
  double without_slow_s_ = 0;  // 0: no rank is slow
  std::vector<RankActivity> activities_;
};

}  // namespace tessera
