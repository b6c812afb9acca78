#include "bench/bench.h"

#include <memory>
#include <nlohmann/json.hpp>

#include "api/schema.h"
#include "base/error.h"
#include "base/failure.h"
#include "bench/bench_comm.h"
#include "bench/bench_decode.h"
#include "bench/bench_limit.h"
#include "bench/bench_predict.h"
#include "bench/bench_pricing.h"
#include "bench/bench_published.h"
#include "bench/bench_report.h"
#include "bench/bench_search.h"
#include "bench/bench_serve.h"
#include "bench/bench_simulator.h"
#include "bench/bench_start.h"
#include "bench/bench_step.h"
#include "bench/bench_suite.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/run_source_flags.h"
#include "comm/mpi/mpi_world.h"
#include "launch/join/rank_mode.h"
#include "launch/rank_failure.h"

namespace tessera {
namespace {

constexpr std::string_view kListAlgorithms = "list";

// Prints each sweep when it is done; JSON as one object at the end.
class Printer {
 public:
  Printer(const BenchCommOptions& options, const BenchSuite& plan, Console& console)
      : options_(options), plan_(plan), console_(console) {}

  void add(const SweepReport& report) {
    wrong_ += report.wrong();
    if (options_.json) {
      sweeps_.push_back(sweep_json(report));
    } else {
      const bool first = !std::exchange(begun_, true);
      console_.out << (options_.tsv ? sweep_tsv(plan_, report)
                                    : (first ? "" : "\n") +
                                          sweep_table(plan_, report, console_.out_columns));
      console_.out.flush();
    }
  }

  int finish() {
    if (options_.json) {
      nlohmann::ordered_json json = {{"schema_version", kSchemaVersion}, {"kind", "bench_comm"}};
      json.update(suite_json(plan_));
      json["sweeps"] = sweeps_;
      json["wrong"] = wrong_;
      console_.out << json.dump(2) << '\n';
    }
    if (wrong_ == 0) return 0;
    // Besides the table, which may have gone to a file.
    report_failure(console_, fmt::format("{} elements of the results are wrong", wrong_));
    return static_cast<int>(ExitCode::kFailed);
  }

 private:
  const BenchCommOptions& options_;
  const BenchSuite& plan_;
  Console& console_;
  bool begun_ = false;
  int64_t wrong_ = 0;
  nlohmann::ordered_json sweeps_ = nlohmann::ordered_json::array();
};

// Rows for other programs have no column for the limit, and GPUs have another one.
bool wants_limit(const BenchCommOptions& options, const BenchSuite& plan,
                 const SweepReport& report) {
  if (options.tsv || plan.backend == BenchBackend::kNccl) return false;
  return is_memory_bound(memory_work(report.cases.back()));
}

int measure_all(const BenchCommOptions& options, const BenchSuite& plan,
                const Environment& environment, Console& console) {
  Printer printer(options, plan, console);
  for (const int ranks : plan.ranks) {
    for (const CollectiveOp op : plan.ops) {
      SweepReport report;
      report.op = op;
      report.ranks = ranks;
      report.cases = plan.cases(op, ranks);
      const bool limited = wants_limit(options, plan, report);
      const MemoryProbe probe = probe_for(memory_work(report.cases.back()), ranks);
      const double before = limited ? memory_rate(probe) : 0;
      SweepRun run = run_sweep(plan, op, ranks, environment, console);
      if (run.exit_code != 0) return run.exit_code;
      if (limited) report.limit = {before, memory_rate(probe)};
      report.rows = std::move(run.rows);
      printer.add(report);
    }
  }
  return printer.finish();
}

// One rank of several that another process started: this command, or a user's mpirun.
class BenchRank {
 public:
  BenchRank(const BenchCommOptions& options, BenchSuite plan, RankMode mode,
            const LaunchContext& context, Console& console)
      : options_(options),
        plan_(std::move(plan)),
        mode_(mode),
        context_(context),
        console_(console) {}

  int run() {
    auto world = join_world(mode_, context_, {.on_warning = [this](const std::string& text) {
                              console_.err << "tessera: " << text << std::endl;
                            }});
    try {
      measure_as_rank(plan_, *world, context_.local_rank.value_or(context_.rank),
                      [this](CollectiveOp op, const BenchRow& row) { keep(op, row); });
    } catch (const std::exception& error) {
      return fail(*world, failure_of(error));
    }
    world.reset();
    return options_.rows || context_.rank != 0 ? 0 : print();
  }

 private:
  void keep(CollectiveOp op, const BenchRow& row) {
    if (options_.rows) {
      console_.out << to_line(row) << std::flush;
      return;
    }
    if (reports_.empty() || reports_.back().op != op) {
      SweepReport report;
      report.op = op;
      report.ranks = context_.size;
      report.cases = plan_.cases(op, context_.size);
      reports_.push_back(std::move(report));
    }
    reports_.back().rows.push_back(row);
  }

  int print() {
    Printer printer(options_, plan_, console_);
    for (const SweepReport& report : reports_) printer.add(report);
    return printer.finish();
  }

  int fail(CommWorld& world, const Failure& failure) {
    abort_as_rank(world, failure.text);
    const int code = static_cast<int>(failure.code);
    if (mode_ == RankMode::kAgentRank) return code;
    report_failure(console_, fmt::format("rank {}: {}", context_.rank, failure.text));
    console_.out.flush();
    if (mode_ == RankMode::kMpiRank) end_mpi_after_failure(code);
    return code;
  }

  const BenchCommOptions& options_;
  BenchSuite plan_;
  RankMode mode_;
  const LaunchContext& context_;
  Console& console_;
  std::vector<SweepReport> reports_;
};

int run_as_rank(const BenchCommOptions& options, const BenchSuite& plan,
                const LaunchContext& context, Console& console) {
  const std::string backend =
      plan.backend == BenchBackend::kNccl ? "auto" : std::string(name_of(plan.backend));
  const RankMode mode = choose_rank_mode(backend, context, context.size);
  return BenchRank(options, plan, mode, context, console).run();
}

BenchSuite plan_for(BenchCommOptions options, const LaunchContext& context) {
  require_config(!options.json || !options.tsv, "--json and --tsv exclude each other: give one");
  require_config(!options.explain || options.algorithm == "auto",
                 "--explain shows what auto chooses, but --algo is {}: leave one of them out",
                 options.algorithm);
  if (options.algorithm == kListAlgorithms) options.algorithm = "auto";
  const bool started = context.launcher != Launcher::kNone;
  if (options.ranks.empty()) options.ranks = started ? std::to_string(context.size) : "2";
  BenchSuite plan = parse_bench_suite(options);
  require_config(!options.explain || plan.backend != BenchBackend::kNccl,
                 "--explain has nothing to show for --backend nccl: NCCL chooses by itself");
  require_config(!started || plan.ranks == std::vector<int>{context.size},
                 "--ranks is {}, but {} started {}: leave the flag out", options.ranks,
                 name_of(context.launcher), context.size);
  return plan;
}

// "a|b|c", of all values of an enumeration.
template <typename Enum>
std::string choices(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : "|", name_of(static_cast<Enum>(i)));
  }
  return text;
}

void add_comm_flags(CLI::App& app, BenchCommOptions& options) {
  add_text(app, "--op", options.op, "LIST",
           "collectives, such as all_reduce,broadcast (default all)");
  add_text(app, "--ranks", options.ranks, "LIST", "how many ranks, such as 2,4 (default 2)");
  add_text(app, "--sizes", options.sizes, "RANGE",
           "bytes of the full array, such as 1K-256M in steps of four, or 1K,3M (default 1K-64M)");
  add_choice(app, "--backend", options.backend, choices<BenchBackend>(kNumBenchBackends),
             "ranks are processes, threads, processes over MPI or with a GPU each (default shm)");
  add_choice(app, "--algo", options.algorithm,
             fmt::format("{}|{}", choices<Algorithm>(kNumAlgorithms), kListAlgorithms),
             "the algorithm (default auto); list shows which op has which");
  add_choice(app, "--dtype", options.dtype, choices<DType>(kNumDTypes),
             "element type (default f32)");
  add_choice(app, "--reduce", options.reduce, choices<ReduceOp>(kNumReduceOps),
             "reduction (default sum)");
  add_switch(app, "--in-place", options.in_place, "results over inputs (default for all_reduce)");
  add_switch(app, "--out-of-place", options.out_of_place, "results elsewhere (default for others)");
  add_real(app, "--budget", options.budget_s, 0, "seconds of samples per size (default 0.2)");
  add_switch(app, "--touch", options.touch, "every rank writes its input before each call");
  add_switch(app, "--explain", options.explain, "show what auto chooses; measure nothing");
  add_switch(app, "--json", options.json, "print JSON");
  add_switch(app, "--tsv", options.tsv,
             "print name, op, ranks, bytes, us, algbw and busbw in GB/s with tabs between");
  hide(add_switch(app, "--corrupt", options.corrupt, "spoil one result of every case"));
  hide(add_switch(app, "--rows", options.rows, "print rows for the process that started this one"));
}

Command add_bench_step(CLI::App& bench) {
  CLI::App* step =
      add_command(bench, "step",
                  {"Time training steps on random tokens and say where the time goes.",
                   "tessera bench step examples/demo.toml --mesh dp=1",
                   "tessera bench step --set model.preset=gpt2 --set train.dtype=bf16"});
  auto options = std::make_shared<BenchStepOptions>();
  options->source.may_lack_file = true;
  add_file_and_set(*step, options->source);
  add_mesh(*step, options->source);
  add_choice(*step, "--device", options->device, "cpu|cuda|auto",
             "where it runs (default train.device)");
  add_whole(*step, "--steps", options->steps, 1, "steps that are timed (default 10)");
  add_whole(*step, "--warmup", options->warmup, 0, "steps before them (default 3)");
  add_real(*step, "--peak", options->peak_tflops, 0,
           "TFLOP/s of the device that MFU is a share of (default: by its name, or measured)");
  add_switch(*step, "--json", options->json, "print JSON");
  return {step, [options](Console& console) { return run_bench_step(*options, console); }};
}

}  // namespace

std::vector<Command> add_bench(CLI::App& root, const Environment& environment) {
  CLI::App* bench =
      add_command(root, "bench",
                  {"Measure what this machine can do.", "tessera bench step examples/demo.toml",
                   "tessera bench comm --help"});
  CLI::App* comm =
      add_command(*bench, "comm",
                  {"Time and check collectives beside the limit of this machine's memory.",
                   "tessera bench comm --op all_reduce --ranks 2,4 --sizes 1K-256M",
                   "tessera bench comm --algo list"});
  auto options = std::make_shared<BenchCommOptions>();
  add_comm_flags(*comm, *options);
  return {{comm, [options, &environment](
                     Console& console) { return run_bench_comm(*options, environment, console); }},
          add_bench_step(*bench),
          add_bench_decode(*bench),
          add_bench_serve(*bench, environment),
          add_bench_simulator(*bench),
          add_bench_published(*bench),
          add_bench_pricing(*bench),
          add_bench_search(*bench),
          add_bench_predict(*bench)};
}

int run_bench_comm(const BenchCommOptions& options, const Environment& environment,
                   Console& console) {
  const LaunchContext context = detect_launch(environment);
  const bool list = options.algorithm == kListAlgorithms;
  BenchSuite plan;
  try {
    plan = plan_for(options, context);
    if (!list && !options.explain) require_backend(plan.backend);
  } catch (const ConfigError& error) {
    // Every rank finds the same mistake; one per host says so.
    if (context.local_rank.value_or(context.rank) == 0) throw;
    return static_cast<int>(error.code());
  }
  if (list || options.explain) {
    console.out << fitted(console, list ? algorithm_table(plan) : choice_table(plan));
    return 0;
  }
  if (context.launcher == Launcher::kNone) return measure_all(options, plan, environment, console);
  return run_as_rank(options, plan, context, console);
}

}  // namespace tessera
