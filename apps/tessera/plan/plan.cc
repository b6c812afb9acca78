#include <fmt/ranges.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/read_text.h"
#include "cli/write_file.h"
#include "commands.h"
#include "compile/pipeline/stages.h"
#include "cost/engine/engine_catalogue.h"
#include "cost/hardware/catalogue.h"
#include "draw/placements_svg.h"
#include "draw/plan_svg.h"
#include "draw/run_plan_svg.h"
#include "plan/fit_changes.h"
#include "plan/plan_request.h"
#include "plan/plan_vary.h"
#include "plan/run_plan_report.h"
#include "spec/emit/emit_settings.h"
#include "spec/run_file/validate.h"
#include "train/plan_report.h"

namespace tessera {
namespace {

// Layers times micro-batches times ranks that are compiled one by one.
constexpr int64_t kMostCompiledCells = int64_t{1} << 17;

bool asks_for_cluster(const PlanRequest& request) { return !request.cluster.empty(); }

// A larger run takes longer to compile rank by rank than anybody waits.
bool is_small(const RunSpec& spec) {
  const double cells = static_cast<double>(spec.model.layers) *
                       static_cast<double>(accumulation(spec)) *
                       static_cast<double>(spec.parallel.world());
  return cells <= static_cast<double>(kMostCompiledCells);
}

// With the cut into stages that our engine makes, so that the other system makes the same.
std::string settings_for(RunSpec spec, const std::string& system) {
  if (spec.parallel.pp > 1 && spec.parallel.stage_layers.empty()) {
    const StagePlan plan = plan_stages(spec, true);
    std::vector<int64_t>& layers = spec.parallel.stage_layers;
    layers.assign(static_cast<size_t>(plan.stages()), 0);
    for (int64_t unit = 1; unit <= spec.model.layers; ++unit) {
      ++layers[static_cast<size_t>(plan.stage_of(static_cast<int>(unit)))];
    }
  }
  return emit_settings(spec, system);
}

// --mesh wins over --set, so what changes of the split is another mesh, to give instead.
std::string mesh_flags(const FitChange& change, std::string_view mesh) {
  constexpr std::string_view kParallel = "parallel.";
  const ParallelSpec& p = change.spec.parallel;
  std::map<std::string, std::string, std::less<>> keys;
  const auto read = [&](std::string_view setting) {
    const size_t equals = setting.find('=');
    keys[std::string(trim(setting.substr(0, equals)))] = trim(setting.substr(equals + 1));
  };
  for (const std::string_view piece : split(mesh, ',')) read(piece);
  std::string others;
  for (const std::string& setting : change.settings) {
    if (setting.starts_with(kParallel)) {
      read(std::string_view(setting).substr(kParallel.size()));
    } else {
      others += " --set " + setting;
    }
  }
  for (const auto& [axis, size] : {std::pair{"pp", p.pp},
                                   {"dp", p.dp},
                                   {"fsdp", p.fsdp},
                                   {"cp", p.cp},
                                   {"tp", p.tp},
                                   {"ep", p.ep}}) {
    keys[axis] = std::to_string(size);
    if (size == 1) keys.erase(axis);
  }
  std::vector<std::string> pieces;
  for (const auto& [key, value] : keys) pieces.push_back(key + "=" + value);
  return fmt::format("--mesh {}{}", fmt::join(pieces, ","), others);
}

// `guesses`: what was taken before it came to this.
int plan_on_cluster(const PlanOptions& options, std::vector<Guess> guesses, Console& console) {
  const PlanRequest& request = options.request;
  require_config(!options.program && options.placements.empty(),
                 "{} is drawn from the programs of all ranks; leave out --cluster",
                 options.program ? "--program" : "--placements");
  const Cluster cluster = find_cluster(request.cluster, read_text);
  OpenSettings open;
  const RunSpec spec = load_request(options.source, request, cluster, guesses, &open);
  if (!request.emit.empty()) {
    console.out << settings_for(spec, request.emit);
    return 0;
  }
  ScalePlanner planner;
  const Engine engine = find_engine(request.engine, read_text);
  RunPlan plan = plan_run(spec, cluster, engine, planner);
  plan.guesses.insert(plan.guesses.begin(), guesses.begin(), guesses.end());
  const bool misfit = options.check && !plan.fits();
  const FitAdvice advice = misfit ? advise_fit(spec, open, cluster, engine, planner) : FitAdvice();
  if (options.json) {
    nlohmann::ordered_json json = {{"schema_version", kSchemaVersion}};
    json.update(run_plan_json(plan, request.tokens));
    if (misfit) json.update(advice_json(plan, advice));
    console.out << json.dump(2) << '\n';
  } else {
    console.out << run_plan_text(plan, request.tokens, options.check);
  }
  if (!options.svg.empty()) write_file(options.svg, run_plan_svg(plan), console);
  if (!misfit) return 0;
  const std::string& mesh = options.source.mesh;
  const FlagsOf flags = [&](const FitChange& change) {
    return mesh.empty() ? set_flags(change) : mesh_flags(change, mesh);
  };
  throw Error(misfit_text(plan, advice, flags), ExitCode::kDoesNotFit);
  return 0;
}

int print_variation(const PlanOptions& options, Console& console) {
  require_config(!options.check && !options.program && options.svg.empty() &&
                     options.placements.empty() && options.request.emit.empty(),
                 "--vary prints a table of many runs: leave out --check, --emit, --program, --svg "
                 "and --placements");
  const Variation variation = vary_plan(options, options.vary);
  if (!options.json) {
    console.out << variation_text(variation);
    return 0;
  }
  nlohmann::ordered_json json = {{"schema_version", kSchemaVersion}};
  json.update(variation_json(variation));
  console.out << json.dump(2) << '\n';
  return 0;
}

// Nobody named a cluster, and the run is too large to compile every rank of it.
int plan_large(PlanOptions options, const RunSpec& spec, Console& console) {
  const int64_t world = spec.parallel.world();
  require_config(!options.program && options.placements.empty(),
                 "{} layers x {} micro-batches x {} ranks are too many to compile one by one for "
                 "{}; use fewer of them",
                 spec.model.layers, accumulation(spec), world,
                 options.program ? "--program" : "--placements");
  const std::string kind = spec.train.device == "cuda" ? "h100" : "cpu";
  options.request.cluster = fmt::format("{}-{}", kind, world);
  return plan_on_cluster(
      options, {{"cluster", options.request.cluster + ", since none is named (--cluster)"}},
      console);
}

}  // namespace

Command add_plan(CLI::App& root) {
  CLI::App* app = root.add_subcommand("plan");
  set_help(*app, {"Show a run's memory, traffic and step time without running it.",
                  "tessera plan --model llama-3-405b --cluster h100-16384 --tp 8 --pp 16 --zero 1",
                  "tessera plan examples/demo.toml --mesh dp=2"});
  auto options = std::make_shared<PlanOptions>();
  options->source.may_be_model = true;
  options->source.add_file_and_set(*app);
  options->source.add_mesh(*app);
  options->source.add_ranks(*app);
  add_request(*app, options->request);
  add_text(*app, "--vary", options->vary, "A.B=X,Y,…",
           "with --cluster: a table of the run with each of these values");
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
  require_config(options.vary.empty() || asks_for_cluster(options.request),
                 "--vary needs a cluster to price the runs on: give --cluster, as in --cluster "
                 "h100-8");
  if (!options.vary.empty()) return print_variation(options, console);
  if (asks_for_cluster(options.request)) return plan_on_cluster(options, {}, console);
  require_config(options.request.model.empty(),
                 "--model {} needs a cluster to plan for: give --cluster, as in --cluster h100-8",
                 options.request.model);
  RunSource source = options.source;
  const std::vector<std::string> settings = settings_of(options.request);
  source.overrides.insert(source.overrides.begin(), settings.begin(), settings.end());
  const RunSpec spec = source.load();
  if (!options.request.emit.empty()) {
    console.out << settings_for(spec, options.request.emit);
    return 0;
  }
  const int64_t world = spec.parallel.world();
  require_config(options.rank < world, "--rank is {}: the mesh has {} ranks, use 0 to {}",
                 options.rank, world, world - 1);
  if (!is_small(spec)) return plan_large(options, spec, console);
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
