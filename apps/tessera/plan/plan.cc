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
#include "cost/hardware/catalogue.h"
#include "draw/placements_svg.h"
#include "draw/plan_svg.h"
#include "plan/plan_request.h"
#include "plan/report/misfit_text.h"
#include "plan/report/plan_json.h"
#include "plan/report/plan_text.h"
#include "plan/report/variation.h"
#include "spec/emit/emit_settings.h"
#include "spec/run_file/run_file.h"
#include "spec/run_file/validate.h"
#include "train/machine_defaults.h"

namespace tessera {
namespace {

// With the cut into stages that our engine makes, so that the other system makes the same.
std::string settings_for(RunSpec spec, const std::string& system) {
  if (spec.parallel.pp > 1 && spec.parallel.stage_layers.empty()) {
    spec.parallel.stage_layers = blocks_of_stages(lay_out_stages(spec, true));
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

// What the command line asks for, with what nobody said filled in from the cluster or the machine.
class PlanCommand {
 public:
  explicit PlanCommand(const PlanOptions& options) : options_(options) {
    request_.tokens = options.request.tokens;
    request_.advise = options.check || options.json;
    request_.digests = options.json;
    if (options.request.cluster.empty()) {
      load_for_this_machine();
    } else {
      load_for_cluster(options.request.cluster);
    }
  }

  int run(Console& console) const;

 private:
  void load_for_cluster(const std::string& name);
  void load_for_this_machine();
  [[nodiscard]] bool needs_programs() const {
    return options_.program || !options_.placements.empty();
  }
  [[nodiscard]] std::string program_flag() const {
    return options_.program ? "--program" : "--placements";
  }
  void print(const Plan& plan, Console& console) const;
  [[nodiscard]] std::string misfit(const Plan& plan) const;

  const PlanOptions& options_;
  PlanRequest request_;
};

void PlanCommand::load_for_cluster(const std::string& name) {
  require_config(!needs_programs(),
                 "{} is drawn from the programs of all ranks; leave out --cluster", program_flag());
  request_.cluster = find_cluster(name, read_text);
  request_.spec = load_request(options_.source, options_.request, *request_.cluster,
                               request_.guesses, &request_.open);
}

void PlanCommand::load_for_this_machine() {
  require_config(options_.request.model.empty(),
                 "--model {} needs a cluster to plan for: give --cluster, as in --cluster h100-8",
                 options_.request.model);
  RunSource source = options_.source;
  const std::vector<std::string> settings = settings_of(options_.request);
  source.overrides.insert(source.overrides.begin(), settings.begin(), settings.end());
  RunSpec spec = source.load();
  const int64_t world = spec.parallel.world();
  require_config(options_.rank < world, "--rank is {}: the mesh has {} ranks, use 0 to {}",
                 options_.rank, world, world - 1);
  if (!options_.request.emit.empty()) {
    request_.spec = std::move(spec);
    return;
  }
  if (!can_compile_every_rank(spec)) {
    require_config(!needs_programs(),
                   "{} layers x {} micro-batches x {} ranks are too many to compile one by one for "
                   "{}; use fewer of them",
                   spec.model.layers, accumulation(spec), world, program_flag());
    const std::string name = assumed_cluster(spec);
    request_.guesses.push_back({"cluster", name + ", since none is named (--cluster)"});
    return load_for_cluster(name);
  }
  RunSpec said = parse_run_file(source.text(), source.file, source.overrides, read_text);
  if (!source.mesh.empty()) said.parallel = parse_mesh(source.mesh, said.parallel);
  request_.open = open_settings(said);
  use_machine_defaults(spec);
  request_.spec = std::move(spec);
}

void PlanCommand::print(const Plan& plan, Console& console) const {
  if (options_.json) {
    console.out << plan_json(plan).dump(2) << '\n';
  } else {
    console.out << plan_text(plan, options_.check);
  }
  if (!options_.svg.empty()) write_file(options_.svg, plan_svg(plan), console);
}

std::string PlanCommand::misfit(const Plan& plan) const {
  const std::string& mesh = options_.source.mesh;
  return misfit_text(plan, [&](const FitChange& change) {
    return mesh.empty() ? set_flags(change) : mesh_flags(change, mesh);
  });
}

int PlanCommand::run(Console& console) const {
  if (!options_.request.emit.empty()) {
    console.out << settings_for(request_.spec, options_.request.emit);
    return 0;
  }
  if (needs_programs()) {
    const CompiledRun run = compile_run(request_.spec);
    if (!options_.placements.empty()) {
      write_file(options_.placements, placements_svg(run.step, run.programs), console);
    }
    if (options_.program) {
      console.out << to_text(run.programs[static_cast<size_t>(options_.rank)]);
    }
  }
  const Plan plan = make_plan(request_);
  if (!options_.program) print(plan, console);
  if (!options_.check || plan.fits()) return 0;
  report_failure(console, misfit(plan));
  return static_cast<int>(ExitCode::kDoesNotFit);
}

int print_variation(const PlanOptions& options, Console& console) {
  require_config(!options.check && !options.program && options.svg.empty() &&
                     options.placements.empty() && options.request.emit.empty(),
                 "--vary prints a table of many runs: leave out --check, --emit, --program, --svg "
                 "and --placements");
  const Cluster cluster = find_cluster(options.request.cluster, read_text);
  const Variation variation = vary_plan(options.vary, [&](const std::string& setting) {
    RunSource source = options.source;
    source.overrides.push_back(setting);
    PlanRequest request{.cluster = cluster};
    request.spec = load_request(source, options.request, cluster, request.guesses);
    return request;
  });
  if (options.json) {
    console.out << variation_json(variation).dump(2) << '\n';
  } else {
    console.out << variation_text(variation);
  }
  return 0;
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
  if (options.vary.empty()) return PlanCommand(options).run(console);
  require_config(!options.request.cluster.empty(),
                 "--vary needs a cluster to price the runs on: give --cluster, as in --cluster "
                 "h100-8");
  return print_variation(options, console);
}

}  // namespace tessera
