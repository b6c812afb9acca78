#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "api/recipe.h"
#include "base/error.h"
#include "base/text/text.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/output_flags.h"
#include "cli/run_source_flags.h"
#include "cli/surroundings.h"
#include "cli/write_file.h"
#include "draw/placements_svg.h"
#include "draw/plan_svg.h"
#include "plan/misfit.h"
#include "plan/plan_command.h"
#include "plan/plan_request.h"
#include "plan/report/plan_text.h"
#include "plan/serve_plan.h"
#include "train/state/staging.h"

namespace tessera {
namespace {

// The flag that needs every rank's Program; empty: none is given.
std::string_view program_flag(const PlanOptions& options) {
  if (options.program) return "--program";
  return options.placements.empty() ? "" : "--placements";
}

void print_programs(const PlanOptions& options, const RunSpec& spec, Console& console) {
  const CompiledRun run = compile_run(spec);
  if (!options.placements.empty()) {
    write_file(options.placements, placements_svg(run.step, run.programs), console);
  }
  if (options.program) {
    console.out << fitted(console, to_text(run.programs[static_cast<size_t>(options.rank)]));
  }
}

// Memory of the host that ranks take for their saves, which is no part of a Program; empty where
// none is taken, or the Programs are not known.
std::vector<int64_t> staging_of(const Plan& plan) {
  const CheckpointSpec& checkpoint = plan.spec.checkpoint;
  const bool takes = checkpoint.on() && (checkpoint.async || checkpoint.memory_every > 0);
  if (!takes || plan.source != PlanSource::kPrograms) return {};
  std::vector<int64_t> bytes =
      planned_staging(checkpoint, build_step(plan.spec, StepKind::kTraining));
  if (std::ranges::max(bytes) == 0) bytes.clear();  // checkpoint.memory_gib is too little
  return bytes;
}

std::string staging_text(const std::vector<int64_t>& staging) {
  if (staging.empty()) return "";
  const auto most = std::max_element(staging.begin(), staging.end());
  return fmt::format(
      "\nbeside this, in memory of the host: copies for checkpoints, {} ({} bytes on rank {})\n",
      human_bytes(*most), with_thousands(*most), most - staging.begin());
}

void print_plan(const PlanOptions& options, const Plan& plan, const FileReader& read,
                Console& console) {
  const SplitFlags& split = options.query.split;
  const std::vector<int64_t> staging = staging_of(plan);
  if (!options.json) {
    console.out << fitted(console, plan_text(plan, options.check) + staging_text(staging) +
                                       recipe_text(split, plan, read));
    return;
  }
  nlohmann::ordered_json json = plan_document(split, plan, read);
  if (!staging.empty()) json["checkpoints"] = {{"staging_bytes", staging}};
  console.out << json.dump(2) << '\n';
}

int print_variation(const PlanOptions& options, const Surroundings& around, Console& console) {
  require_config(!options.check && program_flag(options).empty() && options.svg.empty() &&
                     options.emit.empty(),
                 "--vary prints a table of many runs: leave out --check, --emit, --program, --svg "
                 "and --placements");
  const Variation variation = vary({options.query, options.vary}, around);
  console.out << (options.json ? variation_json(variation).dump(2) + '\n'
                               : fitted(console, variation_text(variation)));
  return 0;
}

int print_settings(const PlanOptions& options, const Surroundings& around, Console& console) {
  require_config(!options.check && program_flag(options).empty() && options.svg.empty() &&
                     options.query.split.tokens == 0,
                 "--emit prints the settings of another system instead of a plan: leave out "
                 "--check, --program, --svg, --placements and --tokens");
  const EmitQuery query{options.query, options.emit};
  const std::string settings = emit(query, around);
  console.out << (options.json ? emit_json(query, settings).dump(2) + '\n' : settings);
  return 0;
}

// What would be left out without a word.
void refuse_beside_program(const PlanOptions& options) {
  require_config(!options.program || !options.json,
                 "--program prints instructions, which have no JSON: leave out --json, or "
                 "--program");
  require_config(options.program || options.rank == 0,
                 "--rank {} says whose program is printed: add --program", options.rank);
}

// --cluster, --mesh, --tp, --pp, --ep and --dtype mean the same for both; whatever else a plan of a
// run takes has no place in one to serve.
ServePlanQuery serve_query(const PlanOptions& options) {
  ServePlanQuery serve = options.serve;
  const PlanQuery& query = options.query;
  const auto refuse = [](bool given, std::string_view what) { refuse_for_serving(given, what); };
  use_split(query.source, query.split, serve);
  refuse(query.failures.any(), "--mtbf-device");
  refuse(!options.vary.empty(), "--vary");
  refuse(!options.emit.empty(), "--emit");
  refuse(!program_flag(options).empty() || options.rank != 0, "--program, --rank or --placements");
  serve.cluster = query.split.cluster;
  serve.advice = options.check || options.json;
  return serve;
}

}  // namespace

Command add_plan(CLI::App& root) {
  CLI::App* app =
      add_command(root, "plan",
                  {"Show a run's memory, traffic and step time without running it.",
                   "tessera plan --model llama-3-405b --cluster h100-16384 --tp 8 --pp 16 --zero 1",
                   "tessera plan examples/demo.toml --mesh dp=2"});
  auto options = std::make_shared<PlanOptions>();
  RunSource& source = options->query.source;
  add_file_and_set(*app, source);
  add_mesh(*app, source);
  add_ranks(*app, source);
  add_request(*app, options->query.split);
  add_failures(*app, options->query.failures);
  add_serve_plan(*app, options->serve);
  add_choice(*app, "--emit", options->emit, kSystems,
             "print the settings of that system for the same run instead");
  add_list(*app, "--vary", options->vary, "A.B=X,Y,…",
           "with --cluster: a table of the run with each of these values (repeatable: a grid)");
  add_switch(*app, "--json", options->json, "print JSON");
  add_switch(*app, "--check", options->check, "exit with 3 if the run does not fit in memory");
  add_switch(*app, "--program", options->program, "print the program of one rank instead");
  add_whole(*app, "--rank", options->rank, 0, "whose program (default 0)");
  add_output_file(*app, "--svg", options->svg, kSvgOutput, "FILE", "also draw memory and traffic");
  add_output_file(*app, "--placements", options->placements, kSvgOutput, "FILE",
                  "also draw which part of a tensor each rank holds");
  return {app, [options](Console& console) { return run_plan(*options, console); }};
}

int run_plan(const PlanOptions& options, Console& console) {
  if (!options.serve.model.empty()) {
    return run_serve_plan(serve_query(options), {options.json, options.check, options.svg},
                          console);
  }
  refuse_serve_flags(options.serve);
  const Surroundings around = console_surroundings();
  require_config((options.vary.empty() && options.emit.empty()) || !options.query.failures.any(),
                 "--mtbf-device, --save and --restart say what failures add to a plan with "
                 "--tokens: leave out --vary and --emit");
  if (!options.vary.empty()) return print_variation(options, around, console);
  if (!options.emit.empty()) return print_settings(options, around, console);
  refuse_beside_program(options);
  const PlanQuery& query = options.query;
  PlanRequest request = plan_request(query, around, program_flag(options));
  const int64_t world = request.spec.parallel.world();
  require_config(options.rank < world || !query.split.cluster.empty(),
                 "--rank is {}: the mesh has {} ranks, use 0 to {}", options.rank, world,
                 world - 1);
  request.advise = options.check || options.json;
  request.digests = options.json;
  if (!program_flag(options).empty()) print_programs(options, request.spec, console);
  const Plan plan = make_plan(request);
  if (!options.program) print_plan(options, plan, around.read, console);
  if (!options.svg.empty()) write_file(options.svg, plan_svg(plan), console);
  if (!options.check || plan.fits()) return 0;
  report_failure(console, misfit_with_flags(plan, query.source.mesh, query.split));
  return static_cast<int>(ExitCode::kDoesNotFit);
}

}  // namespace tessera
