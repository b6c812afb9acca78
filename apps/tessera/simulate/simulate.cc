#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "api/failing_run.h"
#include "api/stage_simulation.h"
#include "base/error.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/output_flags.h"
#include "cli/run_source_flags.h"
#include "cli/surroundings.h"
#include "cli/write_file.h"
#include "compile/pipeline/schedule/schedule_csv.h"
#include "draw/schedule_svg.h"
#include "draw/step_svg.h"
#include "draw/step_text.h"
#include "draw/trace.h"
#include "plan/plan_request.h"
#include "plan/serve_plan.h"
#include "simulate/simulate_command.h"

namespace tessera {
namespace {

int print_schedule(const SimulateOptions& options, const SimulatedSchedule& simulated,
                   Console& console) {
  console.out << (options.json
                      ? schedule_report_json(simulated).dump(2) + '\n'
                      : fitted(console, schedule_report_text(simulated, console.out_columns)));
  if (!options.svg.empty()) write_file(options.svg, schedule_svg(simulated), console);
  if (!options.csv.empty()) write_file(options.csv, to_csv(simulated.schedule), console);
  return 0;
}

int print_stages(const SimulateOptions& options, const StageSimulation& simulation,
                 Console& console) {
  const std::string picture = options.svg.empty() ? "" : simulation.svg();
  console.out << (options.json ? simulation.json().dump(2) + '\n'
                               : fitted(console, simulation.text(console.out_columns)));
  if (!options.svg.empty()) write_file(options.svg, picture, console);
  return 0;
}

int print_failing(const SimulateOptions& options, const FailingRunSimulation& simulation,
                  Console& console) {
  require_config(options.csv.empty(), "--csv writes a pipeline schedule: leave out --mtbf");
  console.out << (options.json ? simulation.json().dump(2) + '\n'
                               : fitted(console, simulation.text(console.out_columns)));
  if (!options.svg.empty()) write_file(options.svg, simulation.svg(), console);
  return 0;
}

void add_failing(CLI::App& app, FailingFlags& failing) {
  add_text(app, "--mtbf", failing.mtbf, "TIME",
           "play a month of steps, with a failure of each device every so often: 50000h");
  add_real(app, "--days", failing.days, 0, "with --mtbf: how long (default 30)");
  add_text(app, "--save-every", failing.save_every, "TIME|N",
           "with --mtbf: time or steps from one save to the next (default: the best)");
  add_text(app, "--save", failing.save, "TIME",
           "with --mtbf: how long training stands still in a save (default: by its bytes)");
  add_text(app, "--restart", failing.restart, "TIME",
           "with --mtbf: from a failure until training goes on (default 5min)");
  add_whole(app, "--spares", failing.spares, 0,
            "with --mtbf: devices in reserve (default: there is always one)");
  add_text(app, "--repair", failing.repair, "TIME",
           "with --spares: until what failed is a spare again (default 1d)");
  add_whole(app, "--seed", failing.seed, 0, "with --mtbf: of the failures (default 1)");
}

// --cluster, --mesh, --tp, --pp, --ep, --dtype and --seed mean the same as for a step.
int simulate_served(const SimulateOptions& options, Console& console) {
  const SimulateQuery& query = options.query;
  SimulateServeFlags flags = options.serve;
  use_split(query.source, query.split, flags.plan);
  flags.plan.cluster = query.cluster;
  flags.traffic.seed = static_cast<uint64_t>(query.failing.seed);
  FailingFlags failing = query.failing;
  failing.seed = FailingFlags().seed;
  refuse_for_serving(!(failing == FailingFlags()), "--mtbf and what goes with it");
  refuse_for_serving(!query.slow.empty() || !query.lost.empty(), "--slow or --lost");
  refuse_for_serving(query.no_contention || query.all_ranks, "--no-contention or --all-ranks");
  refuse_for_serving(query.schedule_only || !options.csv.empty(), "--schedule-only or --csv");
  return run_simulate_serve(flags, {options.json, options.svg, options.trace}, console);
}

bool names_folder(const std::string& path) {
  return path.ends_with('/') || std::filesystem::is_directory(path);
}

// A trace has a line for each instruction of the ranks that are simulated, and a folder two.
void require_traceable(const StepTimeline& timeline, const std::string& target) {
  constexpr size_t kMostTraced = size_t{1} << 19;
  size_t instructions = 0;
  for (const RankTimeline& rank : timeline.ranks) instructions += rank.times.size();
  if (names_folder(target)) instructions *= 2;
  require_config(instructions <= kMostTraced,
                 "--trace would write {} instructions, more than the {} that are; use a smaller "
                 "global_batch or fewer layers, or --svg",
                 instructions, kMostTraced);
}

// A folder gets one file per simulated rank and one of all.
void write_trace(const StepSimulation& simulation, const std::string& target, Console& console) {
  namespace fs = std::filesystem;
  const TraceOptions trace{simulation.digest()};
  const StepTimeline& timeline = simulation.timeline();
  const fs::path path(target);
  if (!names_folder(target)) {
    write_file(target, trace_json(timeline, simulation.activities(), trace), console);
    return;
  }
  std::error_code error;
  fs::create_directories(path, error);
  require(!error, "cannot create '{}': {}", target, error.message());
  for (size_t c = 0; c < timeline.ranks.size(); ++c) {
    const std::string name = fmt::format("rank{}.json.gz", timeline.ranks[c].ranks.front());
    write_file((path / name).string(), trace_json_of(timeline, simulation.activities(), c, trace),
               console);
  }
  write_file((path / "all.json.gz").string(), trace_json(timeline, simulation.activities(), trace),
             console);
}

void write_files(const SimulateOptions& options, const StepSimulation& simulation,
                 Console& console) {
  if (!options.svg.empty()) {
    write_file(options.svg,
               step_svg(simulation.timeline(), simulation.activities(), simulation.picture_title()),
               console);
  }
  if (!options.trace.empty()) write_trace(simulation, options.trace, console);
}

// Once --schedule took no value and was followed by the run file.
void refuse_file_as_schedule(const SplitFlags& split) {
  for (const SplitFlags::Word& word : split.words) {
    require_config(word.flag != std::string_view("--schedule") || !word.value.ends_with(".toml"),
                   "--schedule is '{0}': it takes the name of a schedule, such as 1f1b; for the "
                   "schedule alone give '{0} --schedule-only'",
                   word.value);
  }
}

}  // namespace

Command add_simulate(CLI::App& root) {
  CLI::App* app = add_command(
      root, "simulate",
      {"Show what every rank does when in a training step, without running it.",
       "tessera simulate examples/demo.toml --mesh pp=2,dp=2 --trace step.json",
       "tessera simulate examples/demo.toml --schedule-only --mesh pp=4,schedule=zb-h1"});
  auto options = std::make_shared<SimulateOptions>();
  SimulateQuery& query = options->query;
  add_file_and_set(*app, query.source);
  add_mesh(*app, query.source);
  add_split(*app, query.split);
  add_text(*app, "--cluster", query.cluster, "NAME|FILE",
           "the machine: h100, two-pcs, a file (default cpu; h100 where train.device is cuda)");
  add_list(*app, "--slow", query.slow, "rank=R,factor=X",
           "kernels of a rank take X times as long (repeatable)");
  add_text(*app, "--lost", query.lost, "rank=R,at=X",
           "a rank stops at part X of the step: who waits for whom");
  add_switch(*app, "--no-contention", query.no_contention,
             "kernels keep their speed beside communication");
  add_checked_text(
      *app, "--trace", options->trace, "PATH",
      "write a trace for ui.perfetto.dev (x.json.gz: compressed); to a folder, also one per rank",
      [](const std::string& path) {
        names_folder(path) ? check_output_folder("--trace", path)
                           : check_output_file("--trace", path, kTraceOutput);
      });
  add_output_file(*app, "--svg", options->svg, kSvgOutput, "FILE", "also write it as a picture");
  add_switch(*app, "--all-ranks", query.all_ranks,
             "simulate every rank, also those that do the same as others");
  add_switch(*app, "--schedule-only", query.schedule_only,
             "the pipeline schedule without the step, with equal costs");
  add_output_file(*app, "--csv", options->csv, kCsvOutput, "FILE",
                  "with --schedule-only: also write it as CSV, to change and to run");
  add_failing(*app, query.failing);
  add_simulate_serve(*app, options->serve);
  add_switch(*app, "--json", options->json, "print JSON");
  return {app, [options](Console& console) { return run_simulate(*options, console); }};
}

int run_simulate(const SimulateOptions& options, Console& console) {
  if (!options.serve.plan.model.empty()) return simulate_served(options, console);
  refuse_simulate_serve(options.serve);
  const Surroundings around = console_surroundings();
  std::vector<Guess> guesses;
  const SimulateQuery query = with_recipe(options.query, around, guesses);
  refuse_file_as_schedule(query.split);
  const RunSpec spec = load_simulated(query, around, guesses);
  check_failing(query, !options.trace.empty());
  if (!query.failing.mtbf.empty()) {
    return print_failing(options, FailingRunSimulation(query, spec, std::move(guesses), around),
                         console);
  }
  if (query.schedule_only) {
    check_schedule_alone(query, !options.trace.empty());
    return print_schedule(options, simulate_schedule_of(spec), console);
  }
  require_config(options.csv.empty(), "--csv writes a pipeline schedule: add --schedule-only");
  std::string why = why_by_stages(query, spec, !options.trace.empty());
  if (!why.empty()) {
    return print_stages(
        options, StageSimulation(query, spec, std::move(guesses), around, std::move(why)), console);
  }
  const StepSimulation simulation(query, spec, std::move(guesses), around);
  if (!options.trace.empty()) require_traceable(simulation.timeline(), options.trace);
  console.out << (options.json ? simulation.json().dump(2) + '\n'
                               : fitted(console, simulation.text(console.out_columns)));
  write_files(options, simulation, console);
  return 0;
}

}  // namespace tessera
