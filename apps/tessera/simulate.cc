#include <memory>

#include "base/error.h"
#include "commands.h"
#include "compile/schedule/run_schedule.h"
#include "compile/schedule/schedule_csv.h"
#include "flags.h"
#include "help.h"
#include "sim/schedule_svg.h"
#include "sim/schedule_text.h"
#include "spec/validate.h"
#include "write_file.h"

namespace tessera {
namespace {

std::string text_report(const SimulatedSchedule& simulated) {
  const ScheduleFacts& facts = simulated.facts;
  return fmt::format(
      "{}\n{}, makespan {:g}, at most {} live (forward, input and weight gradient take 1 each)\n\n"
      "{}\n{}",
      schedule_title(simulated.schedule), bubble_text(facts), facts.makespan, facts.peak_live,
      schedule_text(simulated), schedule_table(simulated));
}

}  // namespace

Command add_simulate(CLI::App& root) {
  CLI::App* app = root.add_subcommand("simulate");
  set_help(*app, {"Show what every rank of a pipeline does when, without running it.",
                  "tessera simulate examples/demo.toml --schedule --mesh pp=4,schedule=zb-h1",
                  "tessera plan examples/demo.toml --mesh pp=4,schedule=zb-h1"});
  auto options = std::make_shared<SimulateOptions>();
  options->source.add_file_and_set(*app);
  options->source.add_mesh(*app);
  add_switch(*app, "--schedule", options->schedule, "the pipeline schedule, with equal costs");
  add_text(*app, "--svg", options->svg, "FILE", "also write it as a picture");
  add_text(*app, "--csv", options->csv, "FILE", "also write it as CSV, to change and to run");
  add_switch(*app, "--json", options->json, "print JSON");
  return {app, [options](Console& console) { return run_simulate(*options, console); }};
}

int run_simulate(const SimulateOptions& options, Console& console) {
  require_config(options.schedule,
                 "simulate shows the pipeline schedule in this version: add --schedule");
  const RunSpec spec = options.source.load();
  const PipelineSchedule schedule = run_schedule(spec.parallel, accumulation(spec));
  const SimulatedSchedule simulated = simulate_schedule(schedule);
  if (options.json) {
    nlohmann::ordered_json json;
    json["schema_version"] = kSchemaVersion;
    json.update(schedule_json(simulated));
    console.out << json.dump(2) << '\n';
  } else {
    console.out << text_report(simulated);
  }
  if (!options.svg.empty()) write_file(options.svg, schedule_svg(simulated), console);
  if (!options.csv.empty()) write_file(options.csv, to_csv(schedule), console);
  return 0;
}

}  // namespace tessera
