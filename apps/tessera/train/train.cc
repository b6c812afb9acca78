#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/failure.h"
#include "base/text/printable.h"
#include "base/text/text.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/read_text.h"
#include "cli/run_source_flags.h"
#include "comm/mpi/mpi_world.h"
#include "comm/nccl/nccl_world.h"
#include "comm/shm/shm_world.h"
#include "launch/agent/agent.h"
#include "launch/agent/spares.h"
#include "launch/agent/stop_code.h"
#include "launch/first_voice.h"
#include "launch/hosts/hosts_world.h"
#include "launch/join/rank_mode.h"
#include "launch/oom_score.h"
#include "launch/rank_failure.h"
#include "plan/plan_command.h"
#include "spec/run_file/trainable.h"
#include "train/before_start.h"
#include "train/directory/run_remarks.h"
#include "train/elastic.h"
#include "train/host_run.h"
#include "train/machine_defaults.h"
#include "train/report/comm_report.h"
#include "train/report/planned_measured.h"
#include "train/restarts.h"
#include "train/run_place.h"
#include "train/session/session.h"
#include "train/started_ranks.h"
#include "train/stop_report.h"
#include "train/train_command.h"

namespace tessera {
namespace {

constexpr std::chrono::milliseconds kKeepTheWord{500};
constexpr std::chrono::milliseconds kLeaveLast{2'000};

// A single rank is a process of its own where it may have to be started again.
std::string backend_of(const TrainCommandOptions& options, const LaunchContext& context) {
  require_config(!options.threads || options.backend == "auto" || options.backend == "local",
                 "--threads means --backend local, but --backend is {}: give one of them",
                 options.backend);
  if (options.threads) return "local";
  if (options.hosts.several()) return "auto";
  const bool to_start = context.launcher == Launcher::kNone && options.restarts > 0;
  return to_start && options.backend == "auto" ? "shm" : options.backend;
}

RunSpec load_spec(const TrainCommandOptions& options, const Environment& environment) {
  require_config(!options.allow_unchecked || !options.resume.empty(),
                 "--allow-unchecked: it is of a checkpoint to go on from: add --resume, or leave "
                 "the flag out");
  RunSpec spec = options.source.load(read_text);
  const bool told_replicas = hear_replicas(environment, spec);
  require_trainable(spec.model);
  require_config(!spec.checkpoint.on() || spec.checkpoint.keep >= 2,
                 "checkpoint.keep = {}: a block of the newest checkpoint may turn out bad when it "
                 "is read, and then there must be one before it: use 2 or more",
                 spec.checkpoint.keep);
  if (options.comm_timeout_s > 0) spec.train.comm_timeout = options.comm_timeout_s;
  require_config(options.backend != "nccl" || spec.train.device == TrainDevice::kCuda,
                 "--backend nccl connects GPUs, but train.device is \"{}\": use \"cuda\"",
                 name_of(spec.train.device));
  if (!options.inject.empty()) (void)parse_injection(options.inject);
  check_watch(options.watch, spec);
  // Nobody would go on from what is lost with this command.
  if (options.restarts == 0) spec.checkpoint.memory_every = 0;
  if (!told_replicas) check_ranks_of_hosts(options, spec);
  require_config(!options.hosts.several() || spec.train.device != TrainDevice::kCuda,
                 "--hosts {}: GPUs of several hosts are connected by NCCL, which needs mpirun or "
                 "srun (docs/multi-machine.md); leave out --hosts, or use train.device = \"cpu\"",
                 options.hosts.hosts);
  return spec;
}

// Host 0 has the run directory in hand.
bool writes_run(const TrainCommandOptions& options) {
  return !options.hosts.several() || options.hosts.host_rank == 0;
}

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(std::llround(seconds * 1e3));
}

std::chrono::milliseconds grace_of(const TrainCommandOptions& options) {
  return milliseconds_of(options.grace_s);
}

void say_line(const std::string& text, Console& console) {
  if (text.empty()) return;
  console.err << fitted_err(console, "tessera: " + printable(text)) << std::endl;
}

// Where weights go that the run directory does not take.
std::string rescue_dir(const Environment& environment) {
  const auto found = environment.find("TMPDIR");
  return found == environment.end() || found->second.empty() ? "/tmp" : found->second;
}

std::vector<Fault> faults_of(const Environment& environment) {
  const auto found = environment.find("TESSERA_FAULT");
  return found == environment.end() ? std::vector<Fault>() : parse_faults(found->second);
}

// A fault of a rank that never is would let a test pass that provokes nothing.
void require_ranks_of_faults(const TrainCommandOptions& options, const RunSpec& spec,
                             const Environment& environment) {
  const int64_t replicas = std::max(parse_elastic(options.elastic).most, spec.parallel.dp);
  const int64_t ranks = spec.parallel.world() / spec.parallel.dp * replicas;
  for (const Fault& fault : faults_of(environment)) {
    require_config(fault.rank < ranks, "TESSERA_FAULT: there is no rank {}: the run has {}",
                   fault.rank, count_of(ranks, "rank"));
  }
}

TrainOptions train_options(const TrainCommandOptions& options, const RunSpec& spec,
                           const Environment& environment, ProgressLine& line, Console& console) {
  TrainOptions train;
  train.spec = spec;
  train.run_dir_claimed = true;
  train.resume = options.resume;
  train.allow_unchecked = options.allow_unchecked;
  train.overwrite = options.overwrite;
  train.config_text = options.source.text(read_text);
  train.on_progress = [&line](const TrainProgress& progress) { line.update(progress); };
  train.on_note = [&line, &console](const std::string& text) {
    line.finish();  // the note gets a line of its own
    say_line(text, console);
  };
  train.rescue_dir = rescue_dir(environment);
  if (!options.inject.empty()) train.inject = parse_injection(options.inject);
  train.faults = faults_of(environment);
  train.compare_every = options.compare_every;
  use_watch(options.watch, options.source, train);
  hear_restarts(environment, train);
  return train;
}

void print_results(const TrainCommandOptions& options, const TrainSummary& summary,
                   Console& console) {
  if (options.json) {
    console.out << summary.measured.dump(2) << '\n';
  } else {
    console.out << fitted(console, planned_measured_table(summary.plan, summary.measured) +
                                       comm_time_table(summary.measured.at("communication_time")) +
                                       run_remarks(summary.measured) + last_lines(summary));
  }
  write_watched(options.watch, summary, console);
}

// The code of a run that has come to its end, and its last word.
int end_of_run(const TrainSummary& summary, const InterruptGuard& interrupt, const RunState& state,
               const RunSpec& spec, Console& console) {
  // Only now is it known whether somebody reads the results.
  console.out.flush();
  if (interrupt.signal() == SIGPIPE) return kSignalCode + SIGPIPE;
  if (!summary.stopped) return 0;
  say_line(stopped_text(summary.stop_signal, state, spec.logging.run_dir), console);
  return stop_code(summary.stop_signal, state.checkpointed());
}

int train_on_threads(const TrainCommandOptions& options, const RunSpec& spec,
                     const Environment& environment, Console& console) {
  raise_oom_score(kRankOomScore);
  InterruptGuard interrupt({.speaks = true, .takes_sigpipe = true});
  ProgressLine line(console);
  TrainOptions train = train_options(options, spec, environment, line, console);
  train.should_stop = [&] { return interrupt.signal(); };
  RunState state;
  std::mutex mutex;  // every rank reports
  train.on_state = [&](const RunState& now) {
    const std::scoped_lock lock(mutex);
    state = now;
    interrupt.report(now);
  };
  const TrainSummary summary = run_training(train);
  line.finish();
  print_results(options, summary, console);
  return end_of_run(summary, interrupt, state, spec, console);
}

Resize resize_of(ElasticRun& elastic, RestartJournal& journal, const UniqueFd& kept,
                 Console& console) {
  return {.shrink = [&](int ranks,
                        const std::vector<int>& lost) { return elastic.without(ranks, lost); },
          .grow = [&](int ranks, const RunState& run,
                      bool asked) { return elastic.room(ranks, run, asked); },
          .on_resize =
              [&](int before, int ranks, int generation, const std::string& reason) {
                elastic.resize(ranks);
                forget_snapshots(kept);
                journal.resized(before, ranks, generation, reason.empty() ? elastic.why() : reason);
                say_line(resize_text(before, ranks, generation), console);
              }};
}

// What ranks are, however many hosts have them.
AgentOptions agent_options(const TrainCommandOptions& options, RunSpec& spec,
                           const BeforeStart& before, const Environment& environment,
                           Console& console) {
  const int64_t hosts = std::max<int64_t>(1, options.hosts.hosts);
  use_machine_defaults(spec, spec.parallel.world() / hosts);
  AgentOptions agent;
  agent.ranks = static_cast<int>(spec.parallel.world());
  agent.threads_per_rank = static_cast<int>(spec.train.threads);
  agent.environment = environment;
  agent.log_dir = options.log_dir;
  agent.grace = grace_of(options);
  agent.if_killed = [&before](const std::optional<MemoryKills>& meanwhile) {
    return before.if_killed(meanwhile);
  };
  agent.watch = {milliseconds_of(options.stopped_after_s), milliseconds_of(options.stopped_grace_s),
                 milliseconds_of(options.hung_after_s)};
  agent.describe_step = [&spec](int64_t step) {
    const int64_t batch = spec.train.global_batch;
    return fmt::format("samples {} to {}; see tessera data samples --steps {}", (step - 1) * batch,
                       step * batch - 1, step);
  };
  agent.on_failure = [&](const std::string& text) { report_failure(console, text); };
  agent.on_trouble = [&](const RankTrouble& trouble, const RunState&) {
    say_line(trouble_text(trouble), console);
  };
  agent.on_stop = [&](const RunState& state) {
    const std::string text = finishing_text(state);
    // On a terminal rank 0's line of progress is still open.
    if (!text.empty() && console.err_is_terminal) console.err << std::endl;
    say_line(text, console);
  };
  agent.on_stopped = [&](int signal, const RunState& state) {
    say_line(stopped_text(signal, state, spec.logging.run_dir), console);
  };
  return agent;
}

int start_ranks(const TrainCommandOptions& options, RunSpec spec, const BeforeStart& before,
                const Environment& environment, Console& console) {
  AgentOptions agent = agent_options(options, spec, before, environment, console);
  const UniqueFd kept = spec.checkpoint.memory_every > 0 ? file_for_snapshots() : UniqueFd();
  agent.kept_fd = kept.get();
  tell_run_directory(spec, agent.environment);
  RestartJournal journal(spec.logging.run_dir);
  agent.restarts = static_cast<int>(options.restarts);
  agent.spares = static_cast<int>(options.spares);
  agent.on_spare = [&](pid_t pid, int rank, int generation) {
    journal.spare(pid, rank, generation);
    say_line(spare_text(pid, rank), console);
  };
  agent.on_trouble = [&](const RankTrouble& trouble, const RunState& run) {
    journal.trouble(trouble, run);
    say_line(trouble_text(trouble), console);
  };
  const ElasticBounds bounds = parse_elastic(options.elastic);
  ElasticRun elastic(bounds, spec);
  if (bounds.on()) agent.resize = resize_of(elastic, journal, kept, console);
  agent.prepare = [&](int, Environment& told) {
    journal.prepare(told);
    if (bounds.on()) elastic.begin_generation(told);
  };
  agent.on_loss = [&](const RankLoss& loss, const RunState& run) { journal.lost(loss, run); };
  agent.on_restart = [&](const RankLoss& loss, int generation, int left) {
    journal.restarted(loss, generation, left);
    say_line(restart_text(loss, generation, left), console);
  };
  agent.on_end = [&](const RunState& run) { journal.ended(run); };
  return run_agent(agent);
}

// One rank among several processes. Whoever started them hears of a failure: the agent through the
// world, people through a line of their own.
class RankProcess {
 public:
  RankProcess(const TrainCommandOptions& options, const RunSpec& spec, RankMode mode,
              const LaunchContext& context, const BeforeStart& before,
              const Environment& environment, Console& console)
      : options_(options),
        spec_(spec),
        mode_(mode),
        context_(context),
        before_(before),
        environment_(environment),
        console_(console),
        interrupt_(interrupt_options()) {}

  int run() {
    raise_oom_score(kRankOomScore);
    ProgressLine line(console_);
    TrainOptions train = train_options(options_, spec_, environment_, line, console_);
    train.generation = context_.generation;
    Failpoints failpoints(train.faults, context_.rank, context_.generation);
    failpoints.pass("rdzv.join");
    world_ = join_world(mode_, context_, world_options());
    failpoints.pass("comm.init");
    train.kept_fd = context_.kept_fd;
    train.ranks_on_host = context_.local_size.value_or(0);
    train.should_stop = [this] {
      return std::max(interrupt_.signal(), stop_signal_of(board_of(*world_)));
    };
    train.on_state = [this](const RunState& state) { report(state); };
    // The agent has looked before it started its ranks.
    if (mode_ != RankMode::kAgentRank) train.host_refusal = before_.host_refusal();
    std::optional<ClaimedDirectory> claim;
    TrainSummary summary;
    try {
      if (mode_ != RankMode::kAgentRank && context_.rank == 0) claim.emplace(claim_here(train));
      summary = spec_.train.device == TrainDevice::kCuda ? train_on_gpu(train)
                                                         : train_rank(train, *world_);
    } catch (const std::exception& error) {
      line.finish();
      claim.reset();  // what ends the process may not come back here
      return fail(failure_of(error));
    }
    line.finish();
    // Launchers end a job at the first rank whose code is not 0: rank 0 has spoken when the others
    // may leave the world, where that waits for all.
    if (context_.rank == 0) print_results(options_, summary, console_);
    if (context_.rank == 0 && mode_ != RankMode::kAgentRank) {
      const int code = end_of_run(summary, interrupt_, state_, train.spec, console_);
      console_.out.flush();
      world_.reset();
      return code;
    }
    world_.reset();
    console_.out.flush();
    if (interrupt_.signal() == SIGPIPE) return kSignalCode + SIGPIPE;
    if (!summary.stopped) return 0;
    // The agent judges for its ranks, and wants to know which signal it was.
    if (mode_ == RankMode::kAgentRank) return kSignalCode + summary.stop_signal;
    return stop_code(summary.stop_signal, state_.checkpointed());
  }

 private:
  // Once the world is there, so that the others hear of a directory that cannot be had.
  ClaimedDirectory claim_here(TrainOptions& train) {
    try {
      ClaimedDirectory claim = claim_directory(options_, train.spec, console_);
      before_.check_disk_of(claim.path());
      return claim;
    } catch (const std::exception& error) {
      abort_as_rank(*world_, failure_of(error).text);
      throw;
    }
  }

  // The agent deals with ^C, and with ranks that do not end.
  [[nodiscard]] InterruptOptions interrupt_options() const {
    InterruptOptions options{.takes_sigpipe = true};
    if (mode_ == RankMode::kAgentRank) {
      options.takes_sigint = false;
    } else {
      options.grace = grace_of(options_);
      options.speaks = context_.rank == 0;
    }
    return options;
  }

  void report(const RunState& state) {
    state_ = state;
    interrupt_.report(state);
    if (mode_ != RankMode::kAgentRank) return;
    report_run(board_of(*world_), state, context_.local_rank.value_or(context_.rank) == 0);
  }

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
    return {.timeout = comm_timeout(spec),
            .busy_threads = threads_of_rank(spec),
            // Comes from another thread than the progress, which holds the stream.
            .on_warning = [](const std::string& text) {
              fmt::print(stderr, "tessera: {}\n", printable(text));
            }};
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
  const BeforeStart& before_;
  const Environment& environment_;
  Console& console_;
  InterruptGuard interrupt_;
  RunState state_;
  std::unique_ptr<CommWorld> world_;
};

// Most mistakes are found by every rank, some by one alone.
int refuse_as_rank(const LaunchContext& context, const ConfigError& error, Console& console) {
  if (context.size == 1) throw error;
  const FirstVoice voice(context, error.what());
  if (voice.speaks()) {
    report_failure(console, context.rank == 0
                                ? error.what()
                                : fmt::format("rank {}: {}", context.rank, error.what()));
  }
  // Launchers end a job at the first rank that fails: those that are quiet leave last, and the one
  // that spoke keeps the word until slower ranks have found the mistake too.
  std::this_thread::sleep_for(voice.speaks() ? kKeepTheWord : kLeaveLast);
  return static_cast<int>(error.code());
}

// Everything that happens before the first rank starts, and the plan.
int dry_run(const TrainCommandOptions& options, const LaunchContext& context,
            const Environment& environment, Console& console) {
  check_hosts(options, context, environment);
  RunSpec spec = load_spec(options, environment);
  choose_device(spec);
  const RankMode mode =
      choose_rank_mode(backend_of(options, context), context, spec.parallel.world());
  require_restartable(options, spec, mode, context);
  require_elastic(options.elastic, options.restarts, spec, mode);
  if (is_rank(mode)) require_started_ranks(spec, context);
  BeforeStart before(options, spec, console);
  before.check_files(/*chooses_folder=*/true);
  if (!is_rank(mode)) before.check_resume();
  const int64_t here = context.local_size.value_or(static_cast<int>(spec.parallel.world()));
  before.check_device(mode, here);
  PlanOptions plan;
  plan.query.source = options.source;
  plan.json = options.json;
  const int code = run_plan(plan, console);
  if (!is_rank(mode)) before.check_memory(mode);
  before.check_disk();
  return code;
}

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
           "least seconds from ^C until ranks are made to end; a step gets the time it takes "
           "(default 1.5)");
  add_real(*app, "--comm-timeout", options->comm_timeout_s, 0.1,
           "seconds that a rank waits for another (default: train.comm_timeout, 60)");
  add_switch(*app, "--overwrite", options->overwrite,
             "use a run directory that holds a run; that run is moved to DIR/previous");
  add_text(*app, "--resume", options->resume, "auto|PATH",
           "go on from a checkpoint, on any mesh; auto: the newest good one, if there is one");
  add_switch(*app, "--allow-unchecked", options->allow_unchecked,
             "with --resume: also from a checkpoint whose files of checksums are missing");
  add_whole(*app, "--restarts", options->restarts, 0,
            "how often all ranks start again after one was lost, from the newest checkpoint "
            "(default 0)");
  add_whole(*app, "--spares", options->spares, 0,
            "with --restarts: processes that wait to take the place of a lost rank (default 0)");
  add_text(*app, "--elastic", options->elastic, "min=N,max=N[,grow=STEPS]",
           "with --restarts: replicas (dp) that a run with train.lanes may shrink and grow to");
  add_real(*app, "--stopped-after", options->stopped_after_s, 0.01,
           "with --restarts: seconds until a rank that is stopped is named (default 5)");
  add_real(*app, "--stopped-grace", options->stopped_grace_s, 0,
           "with --restarts: seconds from then until it is killed (default 10)");
  add_real(*app, "--hung-after", options->hung_after_s, 0.01,
           "with --restarts: least seconds without progress until the rank that all wait for is "
           "killed (default 30)");
  add_whole(*app, "--compare-replicas", options->compare_every, 0,
            "steps after which ranks compare hashes of the state that several of them hold "
            "(default 0: never)");
  add_host_flags(*app, options->hosts);
  add_watch_flags(*app, options->watch);
  add_switch(*app, "--dry-run", options->dry_run, "check and plan only; writes nothing");
  add_switch(*app, "--force", options->force, "start although memory or disk are too small");
  add_switch(*app, "--json", options->json, "print the summary as JSON");
  hide(add_switch(*app, "--share-gpu", options->share_gpu, "processes may share a GPU"));
  hide(add_text(*app, "--inject", options->inject, "SPEC", "provoke a fault"));
  return {app, [options, &environment](Console& console) {
            return run_train(*options, environment, console);
          }};
}

int run_train(const TrainCommandOptions& options, const Environment& started_with,
              Console& console) {
  // A spare becomes a rank here, or ends unused.
  const std::optional<Environment> role = take_role(started_with);
  if (!role) return 0;
  const Environment& environment = *role;
  const LaunchContext context = launch_on_hosts(options.hosts, detect_launch(environment));
  if (options.dry_run) return dry_run(options, context, environment, console);
  RunSpec spec;
  RankMode mode{};
  BeforeStart before(options, spec, console);
  try {
    check_hosts(options, context, environment);
    spec = load_spec(options, environment);
    require_ranks_of_faults(options, spec, environment);
    choose_device(spec);
    mode = choose_rank_mode(backend_of(options, context), context, spec.parallel.world());
    require_restartable(options, spec, mode, context);
    require_elastic(options.elastic, options.restarts, spec, mode);
    if (is_rank(mode)) require_started_ranks(spec, context);
    if (mode != RankMode::kAgentRank) before.check_files(!is_rank(mode) && writes_run(options));
  } catch (const ConfigError& error) {
    return refuse_as_rank(context, error, console);
  }
  if (!is_rank(mode)) {
    if (writes_run(options)) before.check_resume();
    before.check_device(mode, spec.parallel.world());
    before.check_memory(mode);
    // After the memory, which is short more often: the first that is said is the one to begin with.
    if (writes_run(options)) before.check_disk();
  }
  if (mode == RankMode::kAgentRank) hear_run_directory(environment, spec);
  std::optional<ClaimedDirectory> claim;
  if (!is_rank(mode) && writes_run(options)) {
    claim.emplace(claim_directory(options, spec, console));
  }
  if (mode == RankMode::kAgent && options.hosts.several()) {
    const AgentOptions agent = agent_options(options, spec, before, environment, console);
    return run_on_hosts(options, spec, agent, run_token(environment), console);
  }
  if (mode == RankMode::kThreads) return train_on_threads(options, spec, environment, console);
  if (mode == RankMode::kAgent) {
    return start_ranks(options, spec, before, environment, console);
  }
  return RankProcess(options, spec, mode, context, before, environment, console).run();
}

}  // namespace tessera
