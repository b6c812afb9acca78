#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/read_text.h"
#include "cli/write_file.h"
#include "commands.h"
#include "compile/pipeline/schedule/run_schedule.h"
#include "compile/pipeline/schedule/schedule_csv.h"
#include "cost/engine/engine_catalogue.h"
#include "cost/hardware/catalogue.h"
#include "draw/run_title.h"
#include "draw/schedule_svg.h"
#include "draw/schedule_text.h"
#include "draw/step_svg.h"
#include "draw/step_text.h"
#include "draw/trace.h"
#include "plan/plan_request.h"
#include "sim/replay/cluster_times.h"
#include "sim/replay/distinct_programs.h"
#include "sim/replay/measured_times.h"
#include "simulate/simulate_flags.h"
#include "spec/run_file/pipeline.h"
#include "spec/run_file/validate.h"

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

int simulate_schedule_of(const SimulateOptions& options, const RunSpec& spec, Console& console) {
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

// A whole step of all ranks.
class StepSimulation {
 public:
  StepSimulation(const SimulateOptions& options, RunSpec spec, std::vector<Guess> guesses)
      : options_(options),
        guesses_(std::move(guesses)),
        engine_(find_engine(options.request.engine, read_text)),
        contention_(options.no_contention ? no_contention() : contention_of(engine_.numbers)),
        cluster_(
            of_size(find_cluster(cluster_name(options, spec), read_text), spec.parallel.world())),
        step_(build_step(with_threads(std::move(spec), cluster_.measured), StepKind::kTraining)) {
    programs_ = distinct_programs(step_);
    const ClusterTimes modelled(cluster_, engine_.numbers, step_.spec.train.dtype, contention_);
    const MeasuredTimes measured(cluster_.measured, "threads");
    const Times& times = cluster_.measured.empty() ? static_cast<const Times&>(modelled) : measured;
    ReplayOptions replay{.slow = parse_slow(options.slow), .fold = !options.all_ranks};
    timeline_ = replay_step(programs_, times, replay);
    if (!replay.slow.empty()) {
      without_slow_s_ = replay_step(programs_, times, {.fold = replay.fold}).makespan;
    }
    if (const auto lost = parse_lost(options.lost)) {
      replay.lost = LostRank{lost->rank, lost->at * timeline_.makespan};
      timeline_ = replay_step(programs_, times, replay);
    }
    activities_ = activity_of(timeline_);
  }

  [[nodiscard]] std::string text() const {
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
    return text + "\n" + step_timeline_text(timeline_, activities_) +
           fmt::format(
               "F forward, B backward, I input and W weight gradients, U update, - waits "
               "for communication, . idle{}\n\n",
               timeline_.lost.has_value() ? ", x lost" : "") +
           step_table(timeline_, activities_) + contention_text() + guesses_text();
  }

  [[nodiscard]] nlohmann::ordered_json json() const {
    nlohmann::ordered_json json = {{"schema_version", kSchemaVersion}};
    json["cluster"] = cluster_.name;
    json["device"] = cluster_.device.name;
    if (cluster_.measured.empty()) json["engine"] = engine_.name;
    if (cluster_.measured.empty()) json["contention"] = contention_json();
    json.update(step_json(timeline_, activities_));
    if (!timeline_.lost.has_value()) json["tokens_per_s"] = tokens_per_s();
    if (without_slow_s_ > 0) json["step_without_slow_ranks_s"] = without_slow_s_;
    for (const Guess& guess : guesses_) {
      json["guesses"].push_back({{"what", guess.what}, {"taken", guess.taken}});
    }
    return json;
  }

  void write_files(Console& console) const {
    if (!options_.svg.empty()) {
      const std::string text = fmt::format("{}: {}", title(), seconds_text(timeline_.makespan));
      write_file(options_.svg, step_svg(timeline_, activities_, text), console);
    }
    if (!options_.trace.empty()) write_trace(console);
  }

 private:
  [[nodiscard]] std::string guesses_text() const {
    std::string text = guesses_.empty() ? "" : "\nguessed\n";
    for (const Guess& guess : guesses_) text += fmt::format("  {}: {}\n", guess.what, guess.taken);
    return text;
  }

  [[nodiscard]] std::string slow_text() const {
    if (without_slow_s_ <= 0) return "";
    return fmt::format(" ({:.3g} times the {} without slow ranks)",
                       timeline_.makespan / without_slow_s_, seconds_text(without_slow_s_));
  }

  // On a calibrated machine ranks share cores, which is measured.
  [[nodiscard]] std::string contention_text() const {
    if (!cluster_.measured.empty() || options_.no_contention) return "";
    return fmt::format(
        "\nbeside a collective kernels lose {:g} % of their speed, beside a message {:g} % "
        "(--no-contention: nothing)\n",
        100 * contention_.collective, 100 * contention_.message);
  }

  [[nodiscard]] nlohmann::ordered_json contention_json() const {
    const auto entry = [&](double share, double EngineNumbers::*field) {
      const Constant& constant = constant_of(engine_, field);
      if (options_.no_contention) {
        return nlohmann::ordered_json{
            {"share", share}, {"provenance", "default"}, {"source", "switched off"}};
      }
      return nlohmann::ordered_json{{"share", share},
                                    {"provenance", name_of(constant.provenance)},
                                    {"source", constant.source}};
    };
    return {{"collective", entry(contention_.collective, &EngineNumbers::overlap_slowdown)},
            {"message", entry(contention_.message, &EngineNumbers::message_slowdown)}};
  }

  [[nodiscard]] std::string title() const {
    return fmt::format("{}, on {} x {}", run_title(step_), with_thousands(cluster_.devices),
                       cluster_.device.name);
  }

  [[nodiscard]] double tokens_per_s() const {
    const TrainSpec& train = step_.spec.train;
    const auto tokens = static_cast<double>(train.global_batch * train.seq_len);
    return timeline_.makespan > 0 ? tokens / timeline_.makespan : 0;
  }

  // A folder gets one file per simulated rank and one of all.
  void write_trace(Console& console) const {
    namespace fs = std::filesystem;
    const TraceOptions trace{digest_of(*programs_.distinct.front())};
    const fs::path path(options_.trace);
    if (!fs::is_directory(path) && !options_.trace.ends_with('/')) {
      write_file(options_.trace, trace_json(timeline_, activities_, trace), console);
      return;
    }
    std::error_code error;
    fs::create_directories(path, error);
    require(!error, "cannot create '{}': {}", options_.trace, error.message());
    for (size_t c = 0; c < timeline_.ranks.size(); ++c) {
      const std::string name = fmt::format("rank{}.json.gz", timeline_.ranks[c].ranks.front());
      write_file((path / name).string(), trace_json_of(timeline_, activities_, c, trace), console);
    }
    write_file((path / "all.json.gz").string(), trace_json(timeline_, activities_, trace), console);
  }

  // On a machine that was calibrated ranks share its cores, as train does it.
  static RunSpec with_threads(RunSpec spec, const MeasuredMachine& machine) {
    if (!machine.empty() && spec.train.threads == 0) {
      spec.train.threads = std::max<int64_t>(1, machine.cores / spec.parallel.world());
    }
    return spec;
  }

  static Cluster of_size(Cluster cluster, int64_t world) {
    return world == cluster.devices ? cluster : with_devices(std::move(cluster), world);
  }

  // What the run file says it is for, where nobody says more.
  static std::string cluster_name(const SimulateOptions& options, const RunSpec& spec) {
    if (!options.cluster.empty()) return options.cluster;
    return spec.train.device == "cuda" ? "h100" : "cpu";
  }

  const SimulateOptions& options_;
  std::vector<Guess> guesses_;
  Engine engine_;
  Contention contention_;
  Cluster cluster_;
  StepGraph step_;
  RankPrograms programs_;
  StepTimeline timeline_;
  double without_slow_s_ = 0;  // 0: no rank is slow
  std::vector<RankActivity> activities_;
};

RunSpec load_simulated(const SimulateOptions& options, std::vector<Guess>& guesses) {
  require_config(options.request.model.empty() || !options.cluster.empty(),
                 "--model {} needs a cluster to be simulated on: give --cluster, as in "
                 "--cluster h100-8",
                 options.request.model);
  if (!options.request.model.empty()) {
    return load_request(options.source, options.request, find_cluster(options.cluster, read_text),
                        guesses);
  }
  RunSource source = options.source;
  const std::vector<std::string> settings = settings_of(options.request);
  source.overrides.insert(source.overrides.begin(), settings.begin(), settings.end());
  return source.load();
}

}  // namespace

Command add_simulate(CLI::App& root) {
  CLI::App* app = root.add_subcommand("simulate");
  set_help(*app, {"Show what every rank does when in a training step, without running it.",
                  "tessera simulate examples/demo.toml --mesh pp=2,dp=2 --trace step.json",
                  "tessera simulate examples/demo.toml --schedule --mesh pp=4,schedule=zb-h1"});
  auto options = std::make_shared<SimulateOptions>();
  options->source.may_be_model = true;
  options->source.add_file_and_set(*app);
  options->source.add_mesh(*app);
  // Here --schedule asks for the picture of one; which one is part of the mesh.
  std::erase_if(options->request.words, [](const PlanRequest::Word& word) {
    return word.flag == std::string("--schedule");
  });
  add_split(*app, options->request);
  add_text(*app, "--cluster", options->cluster, "NAME|FILE",
           "the machine: h100, two-pcs, a file (default cpu; h100 where train.device is cuda)");
  add_list(*app, "--slow", options->slow, "rank=R,factor=X",
           "kernels of a rank take X times as long (repeatable)");
  add_text(*app, "--lost", options->lost, "rank=R,at=X",
           "a rank stops at part X of the step: who waits for whom");
  add_switch(*app, "--no-contention", options->no_contention,
             "kernels keep their speed beside communication");
  add_text(
      *app, "--trace", options->trace, "PATH",
      "write a trace for ui.perfetto.dev (x.json.gz: compressed); to a folder, also one per rank");
  add_text(*app, "--svg", options->svg, "FILE", "also write it as a picture");
  add_switch(*app, "--all-ranks", options->all_ranks,
             "simulate every rank, also those that do the same as others");
  add_switch(*app, "--schedule", options->schedule, "only the pipeline schedule, with equal costs");
  add_text(*app, "--csv", options->csv, "FILE",
           "with --schedule: also write it as CSV, to change and to run");
  add_switch(*app, "--json", options->json, "print JSON");
  return {app, [options](Console& console) { return run_simulate(*options, console); }};
}

int run_simulate(const SimulateOptions& options, Console& console) {
  // A word behind --schedule is taken for the run file.
  const std::vector<std::string_view> names = schedule_names();
  const bool is_schedule =
      std::find(names.begin(), names.end(), options.source.file) != names.end();
  require_config(!options.schedule || !is_schedule,
                 "--schedule takes no value here, it shows the run's schedule: use --set "
                 "parallel.schedule={0}, and --schedule beside it to see that alone",
                 options.source.file);
  std::vector<Guess> guesses;
  const RunSpec spec = load_simulated(options, guesses);
  if (options.schedule) {
    require_config(options.trace.empty() && options.slow.empty() && options.lost.empty(),
                   "--schedule has equal costs and no ranks to slow down: leave out --trace, "
                   "--slow and --lost, or --schedule");
    return simulate_schedule_of(options, spec, console);
  }
  require_config(options.csv.empty(), "--csv writes a pipeline schedule: add --schedule");
  const StepSimulation simulation(options, spec, std::move(guesses));
  if (options.json) {
    console.out << simulation.json().dump(2) << '\n';
  } else {
    console.out << simulation.text();
  }
  simulation.write_files(console);
  return 0;
}

}  // namespace tessera
