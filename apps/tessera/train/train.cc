#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/failure.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/read_text.h"
#include "cli/run_source_flags.h"
#include "comm/mpi/mpi_world.h"
#include "comm/nccl/nccl_world.h"
#include "launch/agent/agent.h"
#include "launch/join/rank_mode.h"
#include "launch/rank_failure.h"
#include "plan/plan_command.h"
#include "spec/run_file/trainable.h"
#include "train/machine_defaults.h"
#include "train/session/comm_report.h"
#include "train/session/planned_measured.h"
#include "train/session/run_remarks.h"
#include "train/session/session.h"
#include "train/started_ranks.h"
#include "train/train_command.h"

namespace tessera {
namespace {

std::string backend_of(const TrainCommandOptions& options) {
  require_config(!options.threads || options.backend == "auto" || options.backend == "local",
                 "--threads means --backend local, but --backend is {}: give one of them",
                 options.backend);
  return options.threads ? "local" : options.backend;
}

// Mistakes that can be seen without reading the text are found before ranks are started.
RunSpec load_spec(const TrainCommandOptions& options) {
  RunSpec spec = options.source.load(read_text);
  require_trainable(spec.model);
  if (options.comm_timeout_s > 0) spec.train.comm_timeout = options.comm_timeout_s;
  require_config(options.backend != "nccl" || spec.train.device == TrainDevice::kCuda,
                 "--backend nccl connects GPUs, but train.device is \"{}\": use \"cuda\"",
                 name_of(spec.train.device));
  require_config(spec.data.path.empty() || std::filesystem::exists(spec.data.path),
                 "data '{}' does not exist: name a text file or a folder of text files",
                 spec.data.path);
  check_watch(options.watch, spec);
  return spec;
}

std::chrono::milliseconds grace_of(const TrainCommandOptions& options) {
  return std::chrono::milliseconds(std::llround(options.grace_s * 1e3));
}

TrainOptions train_options(const TrainCommandOptions& options, const RunSpec& spec,
                           ProgressLine& line, Console& console) {
  TrainOptions train;
  train.spec = spec;
  train.config_text = options.source.text(read_text);
  train.on_progress = [&line](const TrainProgress& progress) { line.update(progress); };
  train.on_note = [&line, &console](const std::string& text) {
    line.finish();  // the note gets a line of its own
    console.err << "tessera: " << text << std::endl;
  };
  if (!options.inject.empty()) train.inject = parse_injection(options.inject);
  use_watch(options.watch, options.source, train);
  return train;
}

void print_results(const TrainCommandOptions& options, const TrainSummary& summary,
                   Console& console) {
  if (options.json) {
    console.out << summary.measured.dump(2) << '\n';
  } else {
    console.out << planned_measured_table(summary.plan, summary.measured)
                << comm_time_table(summary.measured.at("communication_time"))
                << run_remarks(summary.measured);
  }
  write_watched(options.watch, summary, console);
}

void say_stopped(int signal, const RunSpec& spec, Console& console) {
  console.err << "tessera: stopped by " << describe_stop(signal) << "; what was done so far is in "
              << spec.logging.run_dir << std::endl;
}

int train_on_threads(const TrainCommandOptions& options, const RunSpec& spec, Console& console) {
  const InterruptGuard interrupt;
  ProgressLine line(console);
  TrainOptions train = train_options(options, spec, line, console);
  train.should_stop = [&] { return interrupt.interrupted(); };
  const TrainSummary summary = run_training(train);
  line.finish();
  print_results(options, summary, console);
  if (!summary.stopped) return 0;
  say_stopped(interrupt.signal(), spec, console);
  return kSignalCode + interrupt.signal();
}

int start_ranks(const TrainCommandOptions& options, RunSpec spec, const Environment& environment,
                Console& console) {
  if (!options.inject.empty()) (void)parse_injection(options.inject);
  if (spec.train.device == TrainDevice::kCuda) {
    require_gpus(look_for_gpus(), spec.parallel.world(), options.share_gpu);
  }
  use_machine_defaults(spec);
  AgentOptions agent;
  agent.ranks = static_cast<int>(spec.parallel.world());
  agent.threads_per_rank = static_cast<int>(spec.train.threads);
  agent.environment = environment;
  agent.log_dir = options.log_dir;
  agent.grace = grace_of(options);
  agent.on_failure = [&](const std::string& text) { report_failure(console, text); };
  const int code = run_agent(agent);
  const int signal = code - kSignalCode;
  if (signal == SIGINT || signal == SIGTERM) say_stopped(signal, spec, console);
  return code;
}

// One rank among several processes. Whoever started them hears of a failure: the agent through the
// world, people through a line of their own.
class RankProcess {
 public:
  RankProcess(const TrainCommandOptions& options, const RunSpec& spec, RankMode mode,
              const LaunchContext& context, Console& console)
      : options_(options), spec_(spec), mode_(mode), context_(context), console_(console) {}

  int run() {
    // The agent's ranks leave signals to it.
    std::optional<InterruptGuard> interrupt;
    if (mode_ != RankMode::kAgentRank) interrupt.emplace(grace_of(options_));
    world_ = join_world(mode_, context_, world_options());
    ProgressLine line(console_);
    TrainOptions train = train_options(options_, spec_, line, console_);
    train.ranks_on_host = context_.local_size.value_or(0);
    train.should_stop = [&] { return interrupt.has_value() && interrupt->interrupted(); };
    TrainSummary summary;
    try {
      summary = spec_.train.device == TrainDevice::kCuda ? train_on_gpu(train)
                                                         : train_rank(train, *world_);
    } catch (const std::exception& error) {
      line.finish();
      return fail(failure_of(error));
    }
    line.finish();
    world_.reset();
    if (context_.rank == 0) print_results(options_, summary, console_);
    const int signal = interrupt.has_value() ? interrupt->signal() : 0;
    if (!summary.stopped || signal == 0) return 0;
    if (context_.rank == 0) say_stopped(signal, spec_, console_);
    return kSignalCode + signal;
  }

 private:
  TrainSummary train_on_gpu(TrainOptions& train) {
    const std::unique_ptr<NcclWorld> gpus = join_gpus(train);
    return train_rank(train, *world_, *gpus);
  }

  std::unique_ptr<NcclWorld> join_gpus(TrainOptions& train) {
    try {
      const GpuHost host = look_for_gpus();
      require_gpus(host, context_.local_size.value_or(context_.size), options_.share_gpu);
      train.gpu = gpu_of_rank(host, context_);
      if (options_.share_gpu) pretend_own_host(context_.rank);
      return make_nccl_world({.host = *world_, .device = train.gpu});
    } catch (const std::exception& error) {
      abort_as_rank(*world_, failure_of(error).text);
      throw;
    }
  }

  [[nodiscard]] RankWorldOptions world_options() const {
    RunSpec spec = spec_;
    use_machine_defaults(spec, context_.local_size.value_or(0));
    return {
        .timeout = comm_timeout(spec),
        .busy_threads = threads_of_rank(spec),
        // Comes from another thread than the progress, which holds the stream.
        .on_warning = [](const std::string& text) { fmt::print(stderr, "tessera: {}\n", text); }};
  }

  int fail(const Failure& failure) {
    const bool everybody = failure.code == ExitCode::kDiverged;  // all ranks say the same
    if (mode_ != RankMode::kAgentRank && (!everybody || context_.rank == 0)) {
      report_failure(console_, fmt::format("rank {}: {}", context_.rank, failure.text));
    }
    world_.reset();
    const int code = static_cast<int>(failure.code);
    if (mode_ == RankMode::kMpiRank) {
      console_.out.flush();
      end_mpi_after_failure(code);
    }
    return code;
  }

  const TrainCommandOptions& options_;
  const RunSpec& spec_;
  RankMode mode_;
  const LaunchContext& context_;
  Console& console_;
  std::unique_ptr<CommWorld> world_;
};

}  // namespace

Command add_train(CLI::App& root, const Environment& environment) {
  CLI::App* app = add_command(root, "train",
                              {"Train a model and compare what was measured with the plan.",
                               "tessera train examples/demo.toml --set train.steps=20",
                               "tessera generate --run runs/demo --prompt \"Once upon a time\""});
  auto options = std::make_shared<TrainCommandOptions>();
  add_file_and_set(*app, options->source);
  add_mesh(*app, options->source);
  add_ranks(*app, options->source);
  add_switch(*app, "--threads", options->threads,
             "ranks are threads of this process instead of processes");
  add_choice(*app, "--backend", options->backend, "auto|local|shm|mpi|nccl",
             "how ranks are connected (default: by who started them)");
  add_text(*app, "--log-dir", options->log_dir, "DIR", "what rank N prints goes to DIR/rank-N.log");
  add_real(*app, "--grace", options->grace_s, 0,
           "seconds from ^C until ranks are made to end (default 1.5)");
  add_real(*app, "--comm-timeout", options->comm_timeout_s, 0.1,
           "seconds that a rank waits for another (default: train.comm_timeout, 60)");
  add_watch_flags(*app, options->watch);
  add_switch(*app, "--dry-run", options->dry_run, "check and plan only; writes nothing");
  add_switch(*app, "--json", options->json, "print the summary as JSON");
  hide(add_switch(*app, "--share-gpu", options->share_gpu, "processes may share a GPU"));
  hide(add_text(*app, "--inject", options->inject, "SPEC", "provoke a fault"));
  return {app, [options, &environment](Console& console) {
            return run_train(*options, environment, console);
          }};
}

int run_train(const TrainCommandOptions& options, const Environment& environment,
              Console& console) {
  if (options.dry_run) {
    PlanOptions plan;
    plan.query.source = options.source;
    plan.json = options.json;
    return run_plan(plan, console);
  }
  const LaunchContext context = detect_launch(environment);
  RunSpec spec;
  RankMode mode{};
  try {
    spec = load_spec(options);
    choose_device(spec);
    mode = choose_rank_mode(backend_of(options), context, spec.parallel.world());
    if (is_rank(mode)) require_started_ranks(spec, context);
  } catch (const ConfigError& error) {
    // Every rank finds the same mistake; one per host says so.
    if (context.local_rank.value_or(context.rank) == 0) throw;
    // Launchers end a job at the first rank that fails: the one that speaks must be that one.
    std::this_thread::sleep_for(std::chrono::seconds(2));
    return static_cast<int>(error.code());
  }
  if (mode == RankMode::kThreads) return train_on_threads(options, spec, console);
  if (mode == RankMode::kAgent) return start_ranks(options, spec, environment, console);
  return RankProcess(options, spec, mode, context, console).run();
}

}  // namespace tessera
