#include "api/simulate.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/chosen_split.h"
#include "api/fields.h"
#include "api/recipe.h"
#include "api/schema.h"
#include "api/slow_lost.h"
#include "base/error.h"
#include "base/text/text.h"
#include "compile/model/limits.h"
#include "compile/pipeline/schedule/run_schedule.h"
#include "cost/engine/engine_catalogue.h"
#include "cost/engine/engine_keys.h"
#include "cost/hardware/catalogue.h"
#include "draw/run_title.h"
#include "draw/schedule_text.h"
#include "draw/step_text.h"
#include "plan/report/plan_json.h"
#include "sim/replay/cluster_times.h"
#include "sim/replay/distinct_programs.h"
#include "sim/replay/measured_times.h"
#include "spec/run_file/validate.h"

namespace tessera {
namespace {

// On a machine that was calibrated ranks share its cores, as train does it.
RunSpec with_threads(RunSpec spec, const MeasuredMachine& machine) {
  if (!machine.empty() && spec.train.threads == 0) {
    spec.train.threads = std::max<int64_t>(1, machine.cores / spec.parallel.world());
  }
  return spec;
}

StepGraph simulated_step(const RunSpec& spec) {
  require_simulatable(spec);
  return build_step(spec, StepKind::kTraining);
}

Cluster of_size(Cluster cluster, int64_t world) {
  return world == cluster.devices ? cluster : with_devices(std::move(cluster), world);
}

SplitFlags split_with_cluster(const SimulateQuery& query) {
  SplitFlags split = query.split;
  split.cluster = query.cluster;
  return split;
}

// What the run file says it is for, where nobody says more.
std::string cluster_name(const SimulateQuery& query, const RunSpec& spec,
                         const Surroundings& around, std::vector<Guess>& guesses) {
  const std::string named = simulated_cluster(query, around);
  if (!named.empty()) return named;
  const char* taken = spec.train.device == TrainDevice::kCuda ? "h100" : "cpu";
  guesses.push_back({"cluster", fmt::format("{}, since none is named (--cluster)", taken)});
  return taken;
}

// A processor of no particular make stands for any; that is no forecast of this one.
void guess_processor(const Cluster& cluster, std::vector<Guess>& guesses) {
  if (cluster.device.kind != DeviceKind::kCpu || !cluster.measured.empty()) return;
  guesses.push_back({"speed of " + cluster.device.name,
                     "that of no machine in particular; 'tessera calibrate' measures this one, "
                     "and --cluster takes the file it writes"});
}

void read_failing(Fields& fields, FailingFlags& failing) {
  fields.duration_text("mtbf", failing.mtbf);
  fields.real("days", failing.days, 0);
  fields.duration_text("save_every", failing.save_every);
  fields.duration_text("save", failing.save);
  fields.duration_text("restart", failing.restart);
  fields.whole("spares", failing.spares, 0);
  fields.duration_text("repair", failing.repair);
  fields.whole("seed", failing.seed, 0);
}

}  // namespace

std::string guesses_text(const std::vector<Guess>& guesses) {
  std::string text = guesses.empty() ? "" : "\nguessed\n";
  for (const Guess& guess : guesses) text += fmt::format("  {}: {}\n", guess.what, guess.taken);
  return text;
}

SimulateQuery::SimulateQuery() { source.may_be_model = true; }

void read_simulated(Fields& fields, SimulateQuery& query) {
  read_source(fields, query.source);
  read_split(fields, query.split);
  fields.text("cluster", query.cluster);
  fields.texts("slow", query.slow);
  fields.text("lost", query.lost);
  fields.truth("no_contention", query.no_contention);
  fields.truth("all_ranks", query.all_ranks);
}

SimulateQuery simulate_query(const nlohmann::json& request) {
  SimulateQuery query;
  Fields fields(request, "simulate");
  const auto schedule = request.find("schedule");
  if (schedule != request.end() && schedule->is_boolean()) {
    throw ConfigError(
        "simulate: schedule takes the name of a schedule, such as \"1f1b\"; for the schedule alone "
        "use schedule_only");
  }
  read_simulated(fields, query);
  fields.truth("schedule_only", query.schedule_only);
  read_failing(fields, query.failing);
  fields.finish();
  return query;
}

std::string simulated_cluster(const SimulateQuery& query, const Surroundings& around) {
  return cluster_for(query.source, split_with_cluster(query), around.read);
}

SimulateQuery with_recipe(SimulateQuery query, const Surroundings& around,
                          std::vector<Guess>& guesses) {
  use_recipe(query.split, query.cluster, query.source, around.read, guesses);
  return query;
}

RunSpec load_simulated(const SimulateQuery& query, const Surroundings& around,
                       std::vector<Guess>& guesses) {
  const std::string cluster = simulated_cluster(query, around);
  const std::string& model = query.split.model;
  require_config(model.empty() || !cluster.empty(),
                 "--model {} needs a cluster to be simulated on: give --cluster, as in "
                 "--cluster h100-8",
                 model);
  const bool has_split = !model.empty() || !query.split.recipe.empty() ||
                         (query.source.file.empty() && !cluster.empty());
  if (has_split) {
    return load_fitting_split(query.source, split_with_cluster(query),
                              find_cluster(cluster, around.read),
                              find_engine(query.split.engine, around.read), around.read, guesses);
  }
  return with_settings(query.source, split_with_cluster(query)).load(around.read);
}

SimulatedMachine simulated_machine(const SimulateQuery& query, const RunSpec& spec,
                                   const Surroundings& around, std::vector<Guess>& guesses) {
  SimulatedMachine machine;
  machine.named = find_cluster(cluster_name(query, spec, around, guesses), around.read);
  machine.used = of_size(machine.named, spec.parallel.world());
  return machine;
}

void check_schedule_alone(const SimulateQuery& query, bool traced) {
  require_config(!traced && query.slow.empty() && query.lost.empty(),
                 "--schedule-only has equal costs and no ranks to slow down: leave out --trace, "
                 "--slow and --lost, or --schedule-only");
}

SimulatedSchedule simulate_schedule_of(const RunSpec& spec) {
  constexpr int64_t kMostShownCells = int64_t{1} << 18;
  const int64_t stages = spec.parallel.pp * std::max<int64_t>(1, spec.parallel.virtual_stages);
  require_config(accumulation(spec) <= kMostShownCells / stages,
                 "a schedule of {} micro-batches on {} stages is more than the {} that are shown; "
                 "use a smaller global_batch",
                 accumulation(spec), stages, kMostShownCells);
  return simulate_schedule(run_schedule(spec.parallel, accumulation(spec)));
}

std::string schedule_report_text(const SimulatedSchedule& simulated, size_t columns) {
  const ScheduleFacts& facts = simulated.facts;
  return fmt::format(
      "{}\n{}, makespan {:g}, at most {} live (forward, input and weight gradient take 1 each)\n\n"
      "{}\n{}",
      schedule_title(simulated.schedule), bubble_text(facts), facts.makespan, facts.peak_live,
      columns > 0 ? schedule_text(simulated, columns) : schedule_text(simulated),
      schedule_table(simulated));
}

nlohmann::ordered_json schedule_report_json(const SimulatedSchedule& simulated) {
  nlohmann::ordered_json json = {{"schema_version", kSchemaVersion}, {"kind", "schedule"}};
  json.update(schedule_json(simulated));
  return json;
}

StepSimulation::StepSimulation(const SimulateQuery& query, RunSpec spec, std::vector<Guess> guesses,
                               const Surroundings& around)
    : guesses_(std::move(guesses)),
      engine_(find_engine(query.split.engine, around.read)),
      contention_(query.no_contention ? no_contention() : contention_of(engine_.numbers)),
      shows_contention_(!query.no_contention),
      machine_(simulated_machine(query, spec, around, guesses_)),
      step_(simulated_step(with_threads(std::move(spec), machine_.used.measured))),
      programs_(distinct_programs(step_)) {
  guess_processor(machine_.used, guesses_);
  const ClusterTimes modelled(machine_.used, engine_.numbers, step_.spec.train.dtype, contention_);
  const MeasuredTimes measured(machine_.used.measured, "threads");
  const Times& times =
      machine_.used.measured.empty() ? static_cast<const Times&>(modelled) : measured;
  ReplayOptions replay{.slow = parse_slow(query.slow), .fold = !query.all_ranks};
  timeline_ = replay_step(programs_, times, replay);
  if (!replay.slow.empty()) {
    without_slow_s_ = replay_step(programs_, times, {.fold = replay.fold}).makespan;
  }
  if (const auto lost = parse_lost(query.lost)) {
    replay.lost = LostRank{lost->rank, lost->at * timeline_.makespan};
    timeline_ = replay_step(programs_, times, replay);
  }
  activities_ = activity_of(timeline_);
}

std::string StepSimulation::digest() const { return digest_of(*programs_.distinct.front()); }

std::string StepSimulation::text(size_t columns) const {
  const std::string folded =
      timeline_.ranks.size() < static_cast<size_t>(timeline_.mesh.world())
          ? fmt::format("; {} of {} ranks simulated, the others do the same",
                        timeline_.ranks.size(), with_thousands(timeline_.mesh.world()))
          : "";
  std::string text = fmt::format("{}{}\n", title(), folded);
  if (timeline_.lost.has_value()) {
    text += lost_text(timeline_);
  } else {
    text += fmt::format("step {}{}, {} tokens/s\n", seconds_text(timeline_.makespan), slow_text(),
                        with_thousands(static_cast<int64_t>(tokens_per_s())));
  }
  return text + "\n" + step_timeline_text(timeline_, activities_, 100, columns) +
         fmt::format(
             "F forward, B backward, I input and W weight gradients, U update, - waits "
             "for communication, . idle{}\n\n",
             timeline_.lost.has_value() ? ", x lost" : "") +
         step_table(timeline_, activities_) + contention_text() + guesses_text(guesses_);
}

nlohmann::ordered_json StepSimulation::json() const {
  nlohmann::ordered_json json =
      document_head("simulation", timeline_.mesh, step_.layout.num_parameters);
  if (machine_.used.measured.empty()) json["engine"] = engine_.name;
  json["cluster"] = cluster_json(machine_.used, machine_.named.devices);
  if (machine_.used.measured.empty()) json["contention"] = contention_json();
  json["simulated_by"] = "instructions";
  json.update(step_json(timeline_, activities_));
  if (!timeline_.lost.has_value()) json["tokens_per_s"] = tokens_per_s();
  if (without_slow_s_ > 0) json["step_without_slow_ranks_s"] = without_slow_s_;
  json["guesses"] = guesses_json(guesses_);
  return json;
}

std::string StepSimulation::slow_text() const {
  if (without_slow_s_ <= 0) return "";
  return fmt::format(" ({:.3g} times the {} without slow ranks)",
                     timeline_.makespan / without_slow_s_, seconds_text(without_slow_s_));
}

// On a calibrated machine ranks share cores, which is measured.
std::string StepSimulation::contention_text() const {
  if (!machine_.used.measured.empty() || !shows_contention_) return "";
  return fmt::format(
      "\nbeside a collective kernels lose {:g} % of their speed, beside a message {:g} % "
      "(--no-contention: nothing)\n",
      100 * contention_.collective, 100 * contention_.message);
}

nlohmann::ordered_json StepSimulation::contention_json() const {
  const auto entry = [&](double share, double EngineNumbers::*field) {
    if (!shows_contention_) {
      return nlohmann::ordered_json{
          {"share", share}, {"provenance", "default"}, {"source", "switched off"}};
    }
    const Constant& constant = constant_of(engine_, field);
    return nlohmann::ordered_json{{"share", share},
                                  {"provenance", name_of(constant.provenance)},
                                  {"source", constant.source}};
  };
  return {{"collective", entry(contention_.collective, &EngineNumbers::overlap_slowdown)},
          {"message", entry(contention_.message, &EngineNumbers::message_slowdown)}};
}

std::string StepSimulation::title() const {
  return fmt::format("{}, on {} x {}", run_title(step_), with_thousands(machine_.used.devices),
                     machine_.used.device.name);
}

std::string StepSimulation::picture_title() const {
  return fmt::format(
      "{}, on {} x {}",
      full_run_title(step_.spec, step_.layout.num_parameters, step_.stages.schedule.name),
      with_thousands(machine_.used.devices), machine_.used.device.name);
}

double StepSimulation::tokens_per_s() const {
  const TrainSpec& train = step_.spec.train;
  const auto tokens = static_cast<double>(train.global_batch * train.seq_len);
  return timeline_.makespan > 0 ? tokens / timeline_.makespan : 0;
}

}  // namespace tessera
