#include "bench/bench_predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/schema.h"
#include "base/error.h"
#include "base/text/text.h"
#include "bench/bench_predict_serve.h"
#include "bench/named_runs.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/other_load.h"
#include "cli/read_text.h"
#include "compile/program/instruction_cost.h"
#include "cost/engine/engine_catalogue.h"
#include "cost/hardware/catalogue.h"
#include "plan/estimate_run.h"
#include "plan/report/plan_json.h"
#include "published/statistics.h"
#include "sim/replay/measured_times.h"
#include "sim/replay/step_replay.h"
#include "train/machine/step_bench.h"
#include "train/machine_defaults.h"
#include "train/preflight/run_memory.h"
#include "train/report/planned_measured.h"

namespace tessera {
namespace {

struct Prediction {
  std::string name;
  int64_t ranks = 1;
  double predicted_s = 0;
  double measured_s = 0;
  double others_cores = 0;  // that others used while it was measured
  bool plan_holds = false;  // memory, traffic and instructions of every rank
  int64_t by_class = 0;     // instructions of rank 0 whose op was never measured itself
  struct PartTime {
    double predicted_s = 0, measured_s = 0;
  };
  std::array<PartTime, kNumOpClasses> classes;  // of rank 0, instruction by instruction
  std::map<std::string, double> planned_s;      // by the closed forms of each engine
  PartTime waits;  // of rank 0's kernels, for transfers, other ranks and cores: what is left

  [[nodiscard]] double error_pct() const { return 100 * (predicted_s / measured_s - 1); }
};

void add_classes(const MeasuredMachine& machine, const RankTimeline& timeline,
                 const StepBenchResult& result, Prediction& prediction) {
  const Program& program = *timeline.program;
  prediction.waits = {prediction.predicted_s, result.probed_step_s};
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    auto& row = prediction.classes[static_cast<size_t>(class_of(instruction.op))];
    const double predicted_s = timeline.times[i].end - timeline.times[i].begin;
    const double measured_s = result.mean_instruction_s[i];
    row.predicted_s += predicted_s;
    row.measured_s += measured_s;
    if (instruction.stream != StreamKind::kCompute) continue;
    prediction.waits.predicted_s -= predicted_s;
    prediction.waits.measured_s -= measured_s;
    if (!is_measured(machine, program, instruction)) ++prediction.by_class;
  }
}

struct Measurement {
  StepBenchResult result;
  double others_cores = 0;
};

// Where others used the machine meanwhile the run is measured again; the least disturbed counts.
Measurement measure(const CompiledRun& run, const BenchPredictOptions& options) {
  constexpr int kTries = 3;
  std::optional<Measurement> best;
  for (int i = 0; i < kTries; ++i) {
    const OtherLoad others;
    Measurement next{bench_step(run, {.steps = options.steps, .warmup = options.warmup}), 0};
    next.others_cores = others.cores();
    if (!best || next.others_cores < best->others_cores) best = std::move(next);
    if (load_warning(best->others_cores).empty()) break;
  }
  return std::move(*best);
}

Prediction predict(const NamedRun& named, const MeasuredMachine& machine,
                   const BenchPredictOptions& options) {
  const RunSpec asked = named.source.load(read_text);
  require_room_here(asked);
  const CompiledRun run = compile_here(asked);
  const TrainDevice device = run.step.spec.train.device;
  require_config(device == machine.device,
                 "{}: train.device is {}, but the cluster file was measured on {}: choose runs for "
                 "it, or write another with tessera calibrate --device {}",
                 named.name, name_of(device), name_of(machine.device), name_of(device));
  require_config(device == TrainDevice::kCpu || run.step.mesh.world() == 1,
                 "{}: {} ranks would share one GPU, which is no machine that anybody has: predict "
                 "one rank, or several on the CPU",
                 named.name, run.step.mesh.world());
  Prediction prediction;
  prediction.name = named.name;
  prediction.ranks = run.step.mesh.world();
  const MeasuredTimes times(machine, "threads");
  const RankPrograms programs = all_programs(run.programs);
  const StepTimeline timeline = replay_step(programs, times);
  prediction.predicted_s = timeline.makespan;
  const auto [result, others_cores] = measure(run, options);
  prediction.others_cores = others_cores;
  prediction.measured_s = result.median_s();
  prediction.plan_holds = plan_equals_measured(full_plan_json(plan_of(run)), result.measured);
  add_classes(machine, timeline.ranks.front(), result, prediction);
  return prediction;
}

// What tessera plan says of the run, with each engine's constants.
void add_plans(const RunSpec& spec, const Cluster& cluster, const std::vector<Engine>& engines,
               Prediction& prediction) {
  const Cluster machine = with_devices(cluster, prediction.ranks);
  for (const Engine& engine : engines) {
    prediction.planned_s[engine.name] = estimate_run(spec, machine, engine).estimate.time.step_s;
  }
}

struct Report {
  std::vector<Prediction> predictions;
  std::vector<Engine> engines;
  double others_cores = 0;  // mean over the runs
};

ErrorSummary summary_of(const std::vector<Prediction>& predictions) {
  std::vector<double> predicted;
  std::vector<double> measured;
  for (const Prediction& prediction : predictions) {
    predicted.push_back(prediction.predicted_s);
    measured.push_back(prediction.measured_s);
  }
  return summarize(predicted, measured);
}

ErrorSummary plan_summary(const std::vector<Prediction>& predictions, const std::string& engine) {
  std::vector<double> planned;
  std::vector<double> measured;
  for (const Prediction& prediction : predictions) {
    planned.push_back(prediction.planned_s.at(engine));
    measured.push_back(prediction.measured_s);
  }
  return summarize(planned, measured);
}

int64_t most_ranks(const std::vector<Prediction>& predictions) {
  int64_t most = 1;
  for (const Prediction& prediction : predictions) most = std::max(most, prediction.ranks);
  return most;
}

std::string text_report(const Report& report, const MeasuredMachine& machine) {
  const std::vector<Prediction>& predictions = report.predictions;
  TextTable table({{"run"},
                   {"ranks", Align::kRight},
                   {"predicted ms", Align::kRight},
                   {"measured ms", Align::kRight},
                   {"error", Align::kRight},
                   {"memory, traffic"}});
  for (const Prediction& p : predictions) {
    table.add_row({p.name, fmt::format("{}", p.ranks), fmt::format("{:.2f}", p.predicted_s * 1e3),
                   fmt::format("{:.2f}", p.measured_s * 1e3),
                   fmt::format("{:+.1f} %", p.error_pct()), p.plan_holds ? "equal" : "DIFFER"});
  }
  const ErrorSummary summary = summary_of(predictions);
  const std::string where =
      machine.device == TrainDevice::kCuda
          ? fmt::format("{} runs on one GPU", summary.n)
          : fmt::format("{} runs of 1 to {} ranks as threads on {} cores, others used {:.2f}",
                        summary.n, most_ranks(predictions), machine.cores, report.others_cores);
  std::string text = table.str();
  const auto add = [&](const std::string& what, const ErrorSummary& errors) {
    text += fmt::format(
        "{}: mean error {:.1f} %, bias {:+.1f} %, worst {:+.1f} %, rank correlation {:.3f}\n", what,
        errors.mean_abs_pct, errors.bias_pct, errors.worst_pct, errors.spearman);
  };
  add(where, summary);
  for (const Engine& engine : report.engines) {
    add(fmt::format("  closed forms, engine {}", engine.name),
        plan_summary(predictions, engine.name));
  }
  return text;
}

nlohmann::ordered_json part_json(std::string_view name, const Prediction::PartTime& part) {
  return {{"class", name},
          {"predicted_ms", part.predicted_s * 1e3},
          {"measured_ms", part.measured_s * 1e3}};
}

nlohmann::ordered_json json_report(const Report& report, const MeasuredMachine& machine) {
  const std::vector<Prediction>& predictions = report.predictions;
  const ErrorSummary summary = summary_of(predictions);
  nlohmann::ordered_json json = {{"schema_version", kSchemaVersion},
                                 {"kind", "bench_predict"},
                                 {"calibrated", machine.source},
                                 {"device", name_of(machine.device)},
                                 {"cores", machine.cores},
                                 {"others_cores", report.others_cores},
                                 {"n", summary.n},
                                 {"mean_abs_error_pct", summary.mean_abs_pct},
                                 {"bias_pct", summary.bias_pct},
                                 {"worst_pct", summary.worst_pct},
                                 {"spearman", summary.spearman},
                                 {"engines", nlohmann::ordered_json::array()},
                                 {"runs", nlohmann::ordered_json::array()}};
  for (const Engine& engine : report.engines) {
    const ErrorSummary errors = plan_summary(predictions, engine.name);
    json["engines"].push_back({{"name", engine.name},
                               {"mean_abs_error_pct", errors.mean_abs_pct},
                               {"bias_pct", errors.bias_pct},
                               {"worst_pct", errors.worst_pct},
                               {"spearman", errors.spearman}});
  }
  for (const Prediction& p : predictions) {
    nlohmann::ordered_json run = {{"name", p.name},
                                  {"ranks", p.ranks},
                                  {"predicted_ms", p.predicted_s * 1e3},
                                  {"measured_ms", p.measured_s * 1e3},
                                  {"error_pct", p.error_pct()},
                                  {"others_cores", p.others_cores},
                                  {"plan_equals_run", p.plan_holds},
                                  {"priced_by_class", p.by_class},
                                  {"classes", nlohmann::ordered_json::array()}};
    for (const OpClass op_class : kAllOpClasses) {
      const Prediction::PartTime& row = p.classes[static_cast<size_t>(op_class)];
      if (row.measured_s == 0) continue;
      run["classes"].push_back(part_json(name_of(op_class), row));
    }
    run["classes"].push_back(part_json("waits", p.waits));
    for (const auto& [engine, seconds] : p.planned_s) run["planned_ms"][engine] = seconds * 1e3;
    json["runs"].push_back(std::move(run));
  }
  return json;
}

}  // namespace

Command add_bench_predict(CLI::App& bench) {
  CLI::App* app = add_command(bench, "predict",
                              {"Compare predicted step times with measured ones on this machine.",
                               "tessera bench predict bench/predict.txt --cluster machine.toml",
                               "tessera calibrate --out machine.toml"});
  auto options = std::make_shared<BenchPredictOptions>();
  add_text(*app, "list", options->list, "FILE", "runs, one per line: NAME: section.key=value …");
  add_text(*app, "--cluster", options->cluster, "FILE", "what tessera calibrate wrote");
  add_text(*app, "--engine", options->engine, "NAME|FILE",
           "closed forms to compare as well (default: all of tessera presets engines)");
  add_switch(*app, "--serve", options->serve,
             "the list has models to serve: predict and measure first tokens and next ones");
  add_whole(*app, "--steps", options->steps, 1, "steps that are timed (default 10)");
  add_whole(*app, "--warmup", options->warmup, 0, "steps before them (default 3)");
  add_switch(*app, "--json", options->json, "print JSON");
  return {app, [options](Console& console) {
            return options->serve ? run_bench_predict_serve(*options, console)
                                  : run_bench_predict(*options, console);
          }};
}

Cluster measured_cluster(const BenchPredictOptions& options) {
  require_config(!options.list.empty(), "no list of runs given: try bench/predict.txt");
  require_config(!options.cluster.empty(),
                 "--cluster is missing: write a file with tessera calibrate --out machine.toml");
  Cluster cluster = find_cluster(options.cluster, read_text);
  require_config(!cluster.measured.empty(),
                 "{} has no [measured] kernels: write it with tessera calibrate", options.cluster);
  return cluster;
}

int run_bench_predict(const BenchPredictOptions& options, Console& console) {
  const Cluster cluster = measured_cluster(options);
  Report report;
  if (!options.engine.empty()) {
    report.engines.push_back(find_engine(options.engine, read_text));
  } else {
    for (const std::string_view name : engine_names()) {
      report.engines.push_back(find_engine(std::string(name)));
    }
  }
  for (const NamedRun& run : read_named_runs(options.list)) {
    if (!console.quiet) console.err << "running " << run.name << std::endl;
    report.predictions.push_back(predict(run, cluster.measured, options));
    add_plans(run.source.load(read_text), cluster, report.engines, report.predictions.back());
  }
  for (const Prediction& p : report.predictions) {
    report.others_cores += p.others_cores / static_cast<double>(report.predictions.size());
  }
  if (options.json) {
    console.out << json_report(report, cluster.measured).dump(2) << '\n';
  } else {
    console.out << fitted(console, text_report(report, cluster.measured));
  }
  if (const std::string warning = load_warning(report.others_cores); !warning.empty()) {
    console.err << fitted_err(console, "warning: " + warning + '\n');
  }
  const bool holds = std::all_of(report.predictions.begin(), report.predictions.end(),
                                 [](const Prediction& p) { return p.plan_holds; });
  return holds ? 0 : static_cast<int>(ExitCode::kFailed);
}

}  // namespace tessera
