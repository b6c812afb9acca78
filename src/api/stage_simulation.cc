#include "api/stage_simulation.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/split.h"
#include "base/error.h"
#include "base/text/text.h"
#include "compile/model/limits.h"
#include "compile/model/parameters.h"
#include "compile/pipeline/schedule/run_schedule.h"
#include "cost/engine/engine_catalogue.h"
#include "draw/run_title.h"
#include "draw/schedule_svg.h"
#include "draw/schedule_text.h"
#include "draw/step_text.h"
#include "plan/report/plan_json.h"
#include "plan/report/plan_text.h"
#include "spec/run_file/trainable.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

constexpr int64_t kMostShownCells = int64_t{1} << 18;  // stages times micro-batches

bool needs_programs(const SimulateQuery& query) {
  return !query.slow.empty() || !query.lost.empty() || query.all_ranks || query.no_contention;
}

PassCosts costs_of(const PipelineSeconds& seconds) {
  PassCosts costs;
  for (const PassTimes& stage : seconds.stages) {
    costs.stages.push_back(
        {stage.forward_s, stage.backward_s - stage.weight_grad_s, stage.weight_grad_s});
  }
  for (const MessageSeconds& message : seconds.messages) {
    costs.transfers.push_back(message.latency_s + message.wire_s);
  }
  return costs;
}

int64_t stages_of(const RunSpec& spec) {
  return spec.parallel.pp * std::max<int64_t>(1, spec.parallel.virtual_stages);
}

bool is_shown(const RunSpec& spec) {
  return spec.parallel.pp > 1 && accumulation(spec) <= kMostShownCells / stages_of(spec);
}

nlohmann::ordered_json pipeline_json(const SimulatedSchedule& pipeline) {
  nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
  for (const RankFacts& rank : pipeline.facts.ranks) {
    ranks.push_back({{"busy_s", rank.busy},
                     {"idle_s", pipeline.facts.makespan - rank.busy},
                     {"peak_live", rank.peak_live}});
  }
  return {{"schedule", pipeline.schedule.name},
          {"makespan_s", pipeline.facts.makespan},
          {"bubble", pipeline.facts.bubble},
          {"ranks", std::move(ranks)}};
}

}  // namespace

std::string why_by_stages(const SimulateQuery& query, const RunSpec& spec, bool traced) {
  if (traced || needs_programs(query)) {
    refuse_fp8(query.split, "a simulation of Programs");
    require_trainable(spec.model);
    require_simulatable(spec);
    return "";
  }
  if (asks_for_fp8(query.split)) return "--dtype fp8 prices products, and has no Program";
  const std::string choice = untrainable_choice(spec.model);
  return choice.empty() ? why_not_simulatable(spec) : "there is no program for " + choice;
}

StageSimulation::StageSimulation(const SimulateQuery& query, RunSpec spec,
                                 std::vector<Guess> guesses, const Surroundings& around,
                                 std::string why)
    : spec_(std::move(spec)),
      guesses_(std::move(guesses)),
      why_(std::move(why)),
      machine_(simulated_machine(query, spec_, around, guesses_)) {
  const Engine engine = find_engine(query.split.engine, around.read);
  engine_ = engine.name;
  priced_ =
      estimate_run(spec_, machine_.used, engine,
                   asks_for_fp8(query.split) ? BlockProducts::kFp8 : BlockProducts::kAsTrained);
  for (const std::vector<Guess>& more : {priced_.run.guesses, priced_.estimate.guesses}) {
    guesses_.insert(guesses_.end(), more.begin(), more.end());
  }
  if (is_shown(spec_)) {
    CostModel model(priced_.run.workload);
    pipeline_ = simulate_schedule(run_schedule(spec_.parallel, accumulation(spec_)),
                                  costs_of(model.pipeline(priced_.run.strategy)));
  }
}

PlayedStages StageSimulation::played() const {
  require_config(accumulation(spec_) <= kMostShownCells / stages_of(spec_),
                 "{} micro-batches on {} stages are more than the {} passes of a timeline; use a "
                 "smaller global_batch",
                 accumulation(spec_), stages_of(spec_), kMostShownCells);
  CostModel model(priced_.run.workload);
  const PipelineSeconds seconds = model.pipeline(priced_.run.strategy);
  const double optimizer_s = priced_.estimate.time.optimizer_s;
  return {pipeline_ ? *pipeline_
                    : simulate_schedule(run_schedule(spec_.parallel, accumulation(spec_)),
                                        costs_of(seconds)),
          std::max(0.0, seconds.once_s - optimizer_s), optimizer_s};
}

std::string StageSimulation::title() const {
  const std::string schedule(name_of(priced_.run.strategy.schedule));
  return fmt::format("{}, on {} x {}",
                     run_title(spec_, priced_.run.workload.model.parameters(), schedule),
                     with_thousands(machine_.used.devices), machine_.used.device.name);
}

std::string StageSimulation::picture_title() const {
  return fmt::format("{}, on {} x {}",
                     full_run_title(spec_, priced_.run.workload.model.parameters(),
                                    std::string(name_of(priced_.run.strategy.schedule))),
                     with_thousands(machine_.used.devices), machine_.used.device.name);
}

std::string StageSimulation::pipeline_text(size_t columns) const {
  if (!pipeline_) return "";
  return fmt::format(
      "\nthe pipeline: {}, {}\n{}F forward, B backward, I input and W weight gradients, . idle\n\n",
      schedule_title(pipeline_->schedule), bubble_text(pipeline_->facts),
      schedule_rows(*pipeline_, seconds_text(pipeline_->facts.makespan), columns));
}

std::string StageSimulation::text(size_t columns) const {
  const Estimate& estimate = priced_.estimate;
  return fmt::format("{}\nsimulated by stages: {}\nstep {}, {} tokens/s\n{}{}{}", title(), why_,
                     seconds_text(estimate.time.step_s),
                     with_thousands(static_cast<int64_t>(estimate.tokens_per_s)),
                     pipeline_ ? pipeline_text(columns) : "\n", time_table(estimate.time),
                     guesses_text(guesses_));
}

nlohmann::ordered_json StageSimulation::json() const {
  const Estimate& estimate = priced_.estimate;
  nlohmann::ordered_json json =
      document_head("simulation", mesh_of(spec_.parallel), priced_.run.workload.model.parameters());
  json["engine"] = engine_;
  json["cluster"] = cluster_json(machine_.used, machine_.named.devices);
  json["simulated_by"] = "stages";
  json["why_by_stages"] = why_;
  json["step_s"] = estimate.time.step_s;
  json["tokens_per_s"] = estimate.tokens_per_s;
  json["time"] = time_json(estimate.time);
  json["rates"] = rates_json(estimate);
  if (pipeline_) json["pipeline"] = pipeline_json(*pipeline_);
  json["guesses"] = guesses_json(guesses_);
  return json;
}

std::string StageSimulation::svg() const {
  require_config(
      pipeline_.has_value(),
      "{}, and by stages there is {}: leave out --svg, or use a smaller global_batch", why_,
      spec_.parallel.pp == 1 ? "no pipeline to draw" : "a pipeline of too many passes to draw");
  return schedule_svg_in_seconds(*pipeline_, title());
}

}  // namespace tessera
