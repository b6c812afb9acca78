#include <memory>

#include "base/error.h"
#include "commands.h"
#include "flags.h"
#include "help.h"
#include "sim/placements_svg.h"
#include "sim/plan_svg.h"
#include "train/plan_report.h"
#include "write_file.h"

namespace tessera {

Command add_plan(CLI::App& root) {
  CLI::App* app = root.add_subcommand("plan");
  set_help(*app,
           {"Show a run's memory and traffic per rank without running it.",
            "tessera plan examples/demo.toml --mesh dp=2", "tessera train examples/demo.toml"});
  auto options = std::make_shared<PlanOptions>();
  options->source.add_file_and_set(*app);
  options->source.add_mesh(*app);
  options->source.add_ranks(*app);
  add_switch(*app, "--json", options->json, "print JSON");
  add_switch(*app, "--check", options->check, "exit with 3 if the run does not fit in memory");
  add_switch(*app, "--program", options->program, "print the program of one rank instead");
  add_whole(*app, "--rank", options->rank, 0, "whose program (default 0)");
  add_text(*app, "--svg", options->svg, "FILE", "also draw memory and traffic");
  add_text(*app, "--placements", options->placements, "FILE",
           "also draw which part of a tensor each rank holds");
  return {app, [options](Console& console) { return run_plan(*options, console); }};
}

int run_plan(const PlanOptions& options, Console& console) {
  const RunSpec spec = options.source.load();
  const int64_t world = spec.parallel.world();
  require_config(options.rank < world, "--rank is {}: the mesh has {} ranks, use 0 to {}",
                 options.rank, world, world - 1);
  const CompiledRun run = compile_run(spec);
  if (options.program) {
    console.out << program_text(run, options.rank);
  } else if (options.json) {
    console.out << plan_json(run).dump(2) << '\n';
  } else {
    console.out << plan_table(run);
  }
  if (!options.svg.empty()) write_file(options.svg, plan_svg(run.step, run.programs), console);
  if (!options.placements.empty()) {
    write_file(options.placements, placements_svg(run.step, run.programs), console);
  }
  if (options.check) require_fit(run);
  return 0;
}

}  // namespace tessera
