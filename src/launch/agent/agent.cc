#include "launch/agent/agent.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <system_error>

#include "base/error.h"
#include "base/text/text.h"
#include "comm/shm/shm_world.h"
#include "launch/agent/child_watch.h"
#include "launch/agent/job_end.h"
#include "launch/agent/output_forwarder.h"
#include "launch/agent/rank_stacks.h"
#include "launch/agent/restart_ledger.h"
#include "launch/agent/signal_inbox.h"
#include "launch/agent/spares.h"
#include "launch/agent/spawn.h"
#include "launch/cores.h"
#include "launch/oom_score.h"
#include "launch/poll_set.h"
#include "launch/rank_failure.h"
#include "launch/rendezvous/token.h"
#include "launch/stop_signals.h"
#include "launch/stop_time.h"
#include "launch/unique_fd.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Ranks that waited for a peer leave this soon after an abort.
constexpr milliseconds kAbortTime{300};
// After SIGKILL only a process that hangs inside the kernel is still there.
constexpr milliseconds kDieTime{2'000};
// Two signals closer than this are one: `timeout` and schedulers signal both process and group.
constexpr milliseconds kSameSignal{150};
// When a signal for the whole group ends a rank, the agent's own copy comes this soon.
constexpr milliseconds kOwnSignal{50};
// For the reader of the output to take the rest of it. Only a job that ended well has time.
constexpr milliseconds kFlushTime{10'000};
constexpr milliseconds kFlushTimeAfterFailure{400};
constexpr milliseconds kFlushTimeAfterStop{50};
constexpr milliseconds kLongSleep{60'000};
// How often to look whether there may be more ranks.
constexpr milliseconds kLookForRoom{50};

// The signal that a rank which ended in order says it was asked by; 0: its code says something
// else.
int signal_of_stop_code(int code) {
  for (const int signal : kStopSignals) {
    if (code == kSignalCode + signal) return signal;
  }
  return code == kSignalCode + SIGPIPE ? SIGPIPE : 0;
}

std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  std::string bytes = text.str();
  require(!bytes.empty(), "cannot read /proc/self/cmdline: is /proc mounted?");
  if (bytes.back() == '\0') bytes.pop_back();
  std::vector<std::string> arguments;
  for (const std::string_view argument : split(bytes, '\0')) arguments.emplace_back(argument);
  return arguments;
}

// Through no link, and not into a pipe, where opening waits until somebody reads it.
UniqueFd open_log(const std::string& path, bool anew) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  UniqueFd fd(::open(path.c_str(), kFlags | (anew ? O_TRUNC : 0), 0666));
  struct stat status {};
  const bool opened = fd.valid() && ::fstat(fd.get(), &status) == 0;
  require_config(opened, "cannot write the log '{}': {}; use another --log-dir", path,
                 std::strerror(errno));
  require_config(S_ISREG(status.st_mode), "the log '{}' is not a plain file: remove it", path);
  return fd;
}

UniqueFd open_for_rank(const std::string& path, int flags) {
  UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, 0666));
  require(fd.valid(), "cannot open '{}' for the ranks: {}", path, std::strerror(errno));
  return fd;
}

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// "was stopped for 15.1 s and was killed"
std::string describe(const RankTrouble& trouble) {
  const bool hung = trouble.verdict == Verdict::kHung;
  return fmt::format("{} for {:.1f} s and was killed", hung ? "hung" : "was stopped",
                     trouble.seconds);
}

// One generation of ranks.
class Agent {
 public:
  // `replaced`: ranks that spares take the place of.
  Agent(const AgentOptions& options, SignalInbox& signals, SparePool& spares, int generation,
        const std::vector<int>& replaced);
  // Until all ranks are gone.
  JobEnd run();
  // What was seen of the rank because of which it failed.
  [[nodiscard]] RankLoss loss(const JobEnd& end) const;
  // That rank, and others that somebody killed or that crashed.
  [[nodiscard]] std::vector<int> lost_ranks(const JobEnd& end) const;
  [[nodiscard]] RunState run_state() const { return memory_.run_state(); }
  // Whether somebody wants the job to end, so that no other generation starts.
  [[nodiscard]] bool interrupted() const { return stop_signal_ != 0 || interrupted_; }
  // How many ranks are to be started now that these have stopped for it; 0: they have not.
  [[nodiscard]] int growing_to() const { return growing_to_; }
  // The last words of the job.
  void tell_end(const JobEnd& end);

 private:
  [[nodiscard]] int lost_rank(const JobEnd& end) const;
  void start_rank(int rank, bool by_spare);
  void start_spares();
  void say_spare(pid_t pid, int rank) const;
  [[nodiscard]] SpawnRequest child_request() const;
  void wait_for_events();
  void on_signal(int signal);
  void begin_stop(int signal);
  void be_patient_until(Clock::time_point time);
  void on_end(int rank);
  void on_time();
  void look_at_ranks();
  void look_for_room();
  void make_room(int ranks);
  void take_orders();
  void obey(const RankCommand& order);
  void condemn(const RankTrouble& trouble);
  [[nodiscard]] HostSight what_is_seen() const;
  void end_growth();
  void act_on(const WatchFinding& finding);
  [[nodiscard]] std::vector<std::string> what_ranks_do() const;
  [[nodiscard]] std::vector<pid_t> running_pids() const;
  void kill_ranks();
  [[nodiscard]] milliseconds flush_time() const;
  [[nodiscard]] bool orderly(const ChildExit& exit) const;
  [[nodiscard]] milliseconds time_to_next_deadline() const;
  [[nodiscard]] std::optional<MemoryKills> kills_meanwhile() const;
  [[nodiscard]] JobEnd judge_job() const;

  const AgentOptions& options_;
  int generation_;
  Environment environment_;
  std::string executable_;
  std::vector<std::string> arguments_;
  std::string token_;
  std::optional<MemoryKills> kills_before_ = memory_kills();
  std::vector<Core> cores_;
  ShmMemory memory_;
  SignalInbox& signals_;
  SparePool& spares_;
  UniqueFd first_log_;  // of rank 0, whose output goes to two places
  OutputForwarder output_;
  UniqueFd no_input_;
  std::vector<int> replaced_;
  ChildWatch ranks_;
  PollSet poll_;

  int stop_signal_ = 0;
  bool asked_to_grow_ = false;
  int growing_to_ = 0;  // ranks; then the stop is ours
  Clock::time_point stopped_at_;
  std::optional<int> first_failed_;
  std::vector<bool> killed_;
  std::vector<ShmRankStatus> last_seen_;
  RankWatch watch_;
  std::optional<Clock::time_point> look_at_;
  std::vector<std::optional<RankTrouble>> condemned_;  // ranks that a verdict has killed
  double failed_at_ = 0;
  bool interrupted_ = false;
  std::optional<Clock::time_point> abort_at_;
  std::optional<Clock::time_point> kill_at_;
  std::optional<Clock::time_point> give_up_at_;
};

Agent::Agent(const AgentOptions& options, SignalInbox& signals, SparePool& spares, int generation,
             const std::vector<int>& replaced)
    : options_(options),
      generation_(generation),
      environment_(options.environment),
      executable_(options.executable.empty() ? "/proc/self/exe" : options.executable),
      arguments_(options.arguments.empty() ? own_arguments() : options.arguments),
      token_(random_token()),
      memory_(
          ShmMemory::create({.ranks = options.ranks, .bytes_per_rank = options.bytes_per_rank})),
      signals_(signals),
      spares_(spares),
      output_(options.out_fd, options.err_fd),
      no_input_(open_for_rank("/dev/null", O_RDONLY)),
      replaced_(replaced),
      killed_(static_cast<size_t>(options.ranks)),
      last_seen_(static_cast<size_t>(options.ranks)),
      watch_(options.ranks, options.watch),
      condemned_(static_cast<size_t>(options.ranks)) {
  if (options.restarts > 0 || options.part.overseer != nullptr) look_at_ = Clock::now();
  if (options.prepare) options.prepare(generation, environment_);
  if (options.pin_to_cores) cores_ = allowed_cores();
  if (options.log_dir.empty()) return;
  std::error_code failure;
  std::filesystem::create_directories(options.log_dir, failure);
  require_config(!failure, "cannot create the log folder '{}': {}", options.log_dir,
                 failure.message());
}

JobEnd Agent::run() {
  for (int rank = 0; rank < options_.ranks; ++rank) {
    if (options_.is_here(rank)) {
      start_rank(rank, std::count(replaced_.begin(), replaced_.end(), rank) > 0);
    } else {
      ranks_.add_absent();
    }
  }
  ranks_.open_pidfds();
  start_spares();
  while (ranks_.num_running() > 0 && !(give_up_at_ && Clock::now() >= *give_up_at_)) {
    wait_for_events();
    // Signals first: what they explain is no failure of a rank.
    while (const std::optional<int> signal = signals_.take()) on_signal(*signal);
    for (const int rank : ranks_.reap(poll_)) on_end(rank);
    for (const pid_t spare : spares_.reap(poll_)) say_spare(spare, -1);
    take_orders();
    output_.forward(poll_);
    on_time();
  }
  output_.finish(flush_time(), [&] {
    interrupted_ = interrupted_ || signals_.take().has_value();
    return interrupted_;
  });
  end_growth();
  return judge_job();
}

milliseconds Agent::flush_time() const {
  if (stop_signal_ != 0) return kFlushTimeAfterStop;
  return first_failed_ ? kFlushTimeAfterFailure : kFlushTime;
}

void Agent::tell_end(const JobEnd& end) {
  if (!end.message.empty()) {
    if (options_.on_failure) {
      options_.on_failure(end.message);
    } else {
      output_.say("tessera: " + end.message, flush_time());
    }
  }
  if (stop_signal_ != 0 && growing_to_ == 0 && options_.on_stopped) {
    options_.on_stopped(stop_signal_, memory_.run_state());
  }
}

// A rank that gave up waiting is the first to fail, and not the one to blame.
int Agent::lost_rank(const JobEnd& end) const {
  const std::optional<int> waited_for = rank_waited_for(memory_.abort_reason());
  const bool known = waited_for && *waited_for < options_.ranks;
  return known ? *waited_for : end.culprit.value();
}

RankLoss Agent::loss(const JobEnd& end) const {
  const int rank = lost_rank(end);
  const bool waited_for = rank != end.culprit;
  const ShmRankStatus& seen = last_seen_[static_cast<size_t>(rank)];
  const std::optional<RankTrouble>& trouble = condemned_[static_cast<size_t>(rank)];
  return {.verdict = trouble      ? trouble->verdict
                     : waited_for ? Verdict::kHung
                                  : Verdict::kLost,
          .generation = generation_,
          .rank = rank,
          .pid = ranks_.pid(rank),
          .exit = ranks_.exit_of(rank).value_or(ChildExit{}),
          .section = seen.progress.section,
          .step = seen.progress.step,
          .reason = end.message,
          .unix_time = failed_at_,
          .curable = end.curable};
}

std::vector<int> Agent::lost_ranks(const JobEnd& end) const {
  std::vector<int> lost;
  for (int rank = 0; rank < options_.ranks; ++rank) {
    const std::optional<ChildExit>& exit = ranks_.exit_of(rank);
    const bool killed = exit && exit->signal != 0 && !killed_[static_cast<size_t>(rank)];
    if (killed || lost_rank(end) == rank) lost.push_back(rank);
  }
  return lost;
}

SpawnRequest Agent::child_request() const {
  SpawnRequest request;
  request.executable = executable_;
  request.arguments = arguments_;
  request.environment = environment_;
  request.stdout_fd = options_.out_fd;
  request.stderr_fd = options_.err_fd;
  request.oom_score = kRankOomScore;
  request.signal_mask = signals_.previous_mask();
  request.kept_fd = options_.kept_fd;
  return request;
}

// After the ranks, which come first where processes are scarce.
void Agent::start_spares() {
  if (options_.spares > 0) spares_.fill(options_.spares, child_request());
}

void Agent::say_spare(pid_t pid, int rank) const {
  if (options_.on_spare) options_.on_spare(pid, rank, generation_);
}

void Agent::start_rank(int rank, bool by_spare) {
  SpawnRequest request = child_request();
  request.name = fmt::format("rank {}", rank);
  const auto tell = [&](std::string_view name, const std::string& value) {
    request.environment.insert_or_assign(std::string(name), value);
  };
  tell(agent_variable::kRank, std::to_string(rank));
  tell(agent_variable::kSize, std::to_string(options_.ranks));
  const int local = rank - options_.part.first_rank;
  tell(agent_variable::kLocalRank, std::to_string(local));
  tell(agent_variable::kMemory, std::to_string(memory_.fd()));
  tell(agent_variable::kToken, token_);
  tell(agent_variable::kGeneration, std::to_string(generation_));
  if (options_.kept_fd >= 0) tell(agent_variable::kKept, std::to_string(options_.kept_fd));
  if (!options_.part.listeners.empty()) {
    request.listener_fd = options_.part.listeners.at(static_cast<size_t>(local));
    tell(agent_variable::kListener, std::to_string(request.listener_fd));
  }

  UniqueFd out;
  UniqueFd err;
  const bool logged = !options_.log_dir.empty();
  if (logged) {
    out = open_log(fmt::format("{}/rank-{}.log", options_.log_dir, rank), generation_ == 1);
  }
  if (logged && rank == 0) {
    first_log_ = std::move(out);
    out = output_.open_pipe("", OutputForwarder::Target::kOut, first_log_.get());
    err = output_.open_pipe("", OutputForwarder::Target::kErr, first_log_.get());
  } else if (!logged && rank > 0) {
    const std::string prefix = fmt::format("[rank {}] ", rank);
    out = output_.open_pipe(prefix, OutputForwarder::Target::kOut);
    err = output_.open_pipe(prefix, OutputForwarder::Target::kErr);
  }
  request.stdin_fd = rank == 0 ? STDIN_FILENO : no_input_.get();
  request.stdout_fd = out.valid() ? out.get() : options_.out_fd;
  request.stderr_fd = err.valid() ? err.get() : out.valid() ? out.get() : options_.err_fd;
  request.inherited_fd = memory_.fd();
  request.cpus = share_of_cores(cores_, local, options_.ranks_here(), options_.threads_per_rank);
  if (by_spare) {
    if (const std::optional<pid_t> spare = spares_.take(request)) {
      ranks_.add(*spare);
      say_spare(*spare, rank);
      return;
    }
  }
  ranks_.add(spawn_child(request));
}

void Agent::wait_for_events() {
  poll_.clear();
  signals_.add_to(poll_);
  ranks_.add_to(poll_);
  spares_.add_to(poll_);
  output_.add_to(poll_);
  const Overseer* const overseer = options_.part.overseer;
  if (overseer != nullptr && overseer->fd() >= 0) poll_.add(overseer->fd(), POLLIN);
  poll_.wait(std::min({signals_.longest_sleep(), ranks_.longest_sleep(), time_to_next_deadline()}));
}

milliseconds Agent::time_to_next_deadline() const {
  milliseconds time = kLongSleep;
  for (const auto& deadline : {abort_at_, kill_at_, give_up_at_, look_at_}) {
    if (!deadline) continue;
    time = std::min(time, std::chrono::ceil<milliseconds>(*deadline - Clock::now()));
  }
  return time;
}

void Agent::on_signal(int signal) {
  const Clock::time_point now = Clock::now();
  if (signal == SIGUSR2 && options_.resize.grow) {
    asked_to_grow_ = true;
    return;
  }
  if (growing_to_ > 0) {  // they are stopping already, now for good
    growing_to_ = 0;
    stop_signal_ = signal;
    stopped_at_ = now;
    if (options_.on_stop) options_.on_stop(memory_.run_state());
    return;
  }
  if (first_failed_ || stop_signal_ != 0) {
    interrupted_ = true;
    if (stop_signal_ == 0 || now - stopped_at_ >= kSameSignal) kill_ranks();
    return;
  }
  begin_stop(signal);
  if (options_.on_stop) options_.on_stop(memory_.run_state());
}

void Agent::begin_stop(int signal) {
  stop_signal_ = signal;
  stopped_at_ = Clock::now();
  memory_.request_stop(signal);
  // A rank that somebody stopped (SIGSTOP) could not end, and would take the others' work with it.
  ranks_.continue_running();
  be_patient_until(stopped_at_ + stop_time(memory_.run_state(), options_.grace));
}

void Agent::be_patient_until(Clock::time_point time) {
  abort_at_ = time;
  if (!first_failed_) kill_at_ = time + kAbortTime;
}

// After a stop, ranks say 128 + signal as a shell would, and a signal for the whole group hits them
// too.
bool Agent::orderly(const ChildExit& exit) const {
  if (!exit.failed()) return true;
  return stop_signal_ != 0 && (exit.signal == stop_signal_ || signal_of_stop_code(exit.code) != 0);
}

void Agent::on_end(int rank) {
  const ChildExit exit = *ranks_.exit_of(rank);
  // Now, because the group that it speaks of may be gone when the job has ended.
  last_seen_[static_cast<size_t>(rank)] = memory_.status(rank);
  if (killed_[static_cast<size_t>(rank)]) return;
  if (stop_signal_ == 0 && signal_of_stop_code(kSignalCode + exit.signal) != 0) {
    if (const std::optional<int> signal = signals_.take(kOwnSignal)) on_signal(*signal);
  }
  // A signal for one rank alone, or a reader that went away: all ranks have agreed to end. ^C is
  // not for ranks, which ignore it.
  const int asked_by = exit.signal == SIGPIPE ? SIGPIPE : signal_of_stop_code(exit.code);
  if (stop_signal_ == 0 && !first_failed_ && asked_by != 0 && asked_by != SIGINT) {
    begin_stop(asked_by);
  }
  if (orderly(exit)) {
    memory_.report_exit(rank, describe(exit));
    return;
  }
  // The memory knows the pid only of a rank that came as far as attaching to it.
  if (memory_.status(rank).state == ShmRankState::kAbsent) {
    memory_.abort(fmt::format("rank {} (pid {}) {} before it joined the others", rank,
                              ranks_.pid(rank), describe(exit)));
  }
  const std::optional<RankTrouble>& trouble = condemned_[static_cast<size_t>(rank)];
  memory_.report_death(rank, trouble ? describe(*trouble) : describe(exit));
  if (!first_failed_) {
    first_failed_ = rank;
    failed_at_ = unix_seconds();
  }
  const Clock::time_point kill_at = Clock::now() + options_.leave_time;
  kill_at_ = std::min(kill_at_.value_or(kill_at), kill_at);
}

void Agent::on_time() {
  const Clock::time_point now = Clock::now();
  if (abort_at_ && now >= *abort_at_) {
    const Clock::time_point patient_until =
        stopped_at_ + stop_time(memory_.run_state(), options_.grace);
    if (now < patient_until) {
      be_patient_until(patient_until);  // by now the weights are being written
    } else {
      memory_.abort(fmt::format("stopped by {}", signal_name(stop_signal_)));
      abort_at_.reset();
    }
  }
  if (kill_at_ && now >= *kill_at_) kill_ranks();
  if (look_at_ && now >= *look_at_) look_at_ranks();
}

// Until the job ends for another reason: those that end in order may take their time.
void Agent::look_at_ranks() {
  if (first_failed_ || stop_signal_ != 0 || give_up_at_) {
    look_at_.reset();
    return;
  }
  const Clock::time_point now = Clock::now();
  look_at_ = now + options_.watch.tick();
  if (options_.part.overseer != nullptr) return options_.part.overseer->tell(what_is_seen());
  if (options_.resize.grow) look_at_ = std::min(*look_at_, now + kLookForRoom);
  std::vector<RankSight> sights;
  for (int rank = 0; rank < options_.ranks; ++rank) {
    sights.push_back({.running = ranks_.running(rank),
                      .stopped = ranks_.stopped(rank),
                      .progress = memory_.progress(rank)});
  }
  for (const WatchFinding& finding : watch_.look(now, sights)) act_on(finding);
  if (options_.resize.grow) look_for_room();
}

// The ranks are stopped as somebody else would stop them: after the step at hand, with a save.
void Agent::look_for_room() {
  const int room = options_.resize.grow(options_.ranks, memory_.run_state(), asked_to_grow_);
  if (room > options_.ranks) make_room(room);
}

void Agent::make_room(int ranks) {
  growing_to_ = ranks;
  begin_stop(SIGUSR2);
}

HostSight Agent::what_is_seen() const {
  HostSight seen{.run = memory_.run_state()};
  const int first = options_.part.first_rank;
  for (int rank = first; rank < first + options_.ranks_here(); ++rank) {
    seen.ranks.push_back({.running = ranks_.running(rank),
                          .stopped = ranks_.stopped(rank),
                          .progress = memory_.progress(rank)});
    seen.pids.push_back(ranks_.pid(rank));
  }
  seen.run.section = seen.ranks.front().progress.section;
  seen.run.step = seen.ranks.front().progress.step;
  return seen;
}

void Agent::take_orders() {
  if (options_.part.overseer == nullptr) return;
  while (const std::optional<RankCommand> order = options_.part.overseer->take()) obey(*order);
}

// As long as the ranks are neither failing nor ending already.
void Agent::obey(const RankCommand& order) {
  if (first_failed_ || stop_signal_ != 0 || give_up_at_) return;
  switch (order.kind) {
    case RankCommand::Kind::kSayWhere: {
      RankStacks stacks = ask_for_stacks(memory_, running_pids());
      return options_.part.overseer->tell(HostWhereabouts{
          .ranks = what_ranks_do(), .at = std::move(stacks.at), .stacks = std::move(stacks.text)});
    }
    case RankCommand::Kind::kKill:
      if (!options_.is_here(order.rank)) return;
      return condemn({.verdict = order.verdict, .rank = order.rank, .seconds = order.seconds});
    case RankCommand::Kind::kMakeRoom:
      return make_room(options_.ranks);
  }
}

// A run that was at its end needs no more ranks.
void Agent::end_growth() {
  const auto done = [&](int rank) {
    const std::optional<ChildExit>& exit = ranks_.exit_of(rank);
    return exit && !exit->failed();
  };
  for (int rank = 0; rank < options_.ranks; ++rank) {
    if (growing_to_ == 0 || !done(rank)) return;
  }
  growing_to_ = 0;
  stop_signal_ = 0;
}

void Agent::act_on(const WatchFinding& finding) {
  using Kind = WatchFinding::Kind;
  const RankProgress progress = memory_.progress(finding.rank);
  const bool hung = finding.kind == Kind::kHung;
  RankTrouble trouble{.verdict = hung ? Verdict::kHung : Verdict::kStopped,
                      .generation = generation_,
                      .rank = finding.rank,
                      .pid = ranks_.pid(finding.rank),
                      .seconds = std::chrono::duration<double>(finding.time).count(),
                      .section = progress.section,
                      .step = progress.step,
                      .over = finding.kind == Kind::kGoesOn};
  if (hung) {
    trouble.ranks = what_ranks_do();
    RankStacks stacks = ask_for_stacks(memory_, running_pids());
    trouble.at = stacks.at[static_cast<size_t>(finding.rank)];
    trouble.stacks = std::move(stacks.text);
  }
  const bool told = finding.kind != Kind::kStoppedTooLong;  // it was, when it was found stopped
  if (told && options_.on_trouble) options_.on_trouble(trouble, memory_.run_state());
  if (!hung && finding.kind != Kind::kStoppedTooLong) return;
  condemn(trouble);
}

void Agent::condemn(const RankTrouble& trouble) {
  condemned_[static_cast<size_t>(trouble.rank)] = trouble;
  ranks_.kill_child(trouble.rank);
}

std::vector<std::string> Agent::what_ranks_do() const {
  std::vector<std::string> texts;
  for (int rank = 0; rank < options_.ranks; ++rank) {
    if (!options_.is_here(rank)) continue;
    const ShmRankStatus status = memory_.status(rank);
    const std::string call = status.last_call.empty() ? "no collective yet" : status.last_call;
    const int peer = status.progress.waits_for;
    const std::string waits = peer < 0 ? fmt::format("rank {} waits for nobody", rank)
                                       : fmt::format("rank {} waits for rank {}", rank, peer);
    texts.push_back(fmt::format("{}; last {}{}{}", waits, call, status.work.empty() ? "" : "; at ",
                                fmt::join(status.work, ", ")));
  }
  return texts;
}

std::vector<pid_t> Agent::running_pids() const {
  std::vector<pid_t> pids;
  for (int rank = 0; rank < options_.ranks; ++rank) {
    const pid_t pid = ranks_.running(rank) ? ranks_.pid(rank) : 0;
    pids.push_back(options_.is_here(rank) ? pid : kNotHere);
  }
  return pids;
}

void Agent::kill_ranks() {
  for (int rank = 0; rank < options_.ranks; ++rank) {
    if (ranks_.running(rank)) killed_[static_cast<size_t>(rank)] = true;
  }
  ranks_.kill_running();
  abort_at_.reset();
  kill_at_.reset();
  if (!give_up_at_) give_up_at_ = Clock::now() + kDieTime;
}

std::optional<MemoryKills> Agent::kills_meanwhile() const {
  const std::optional<MemoryKills> now = memory_kills();
  if (!now || !kills_before_) return std::nullopt;
  return MemoryKills{.machine = now->machine - kills_before_->machine,
                     .group = now->group - kills_before_->group};
}

JobEnd Agent::judge_job() const {
  std::vector<RankEnd> ends;
  for (int rank = 0; rank < options_.ranks; ++rank) {
    ends.push_back({.pid = ranks_.pid(rank),
                    .exit = ranks_.exit_of(rank),
                    .killed_by_agent = killed_[static_cast<size_t>(rank)],
                    .killed_by_verdict = condemned_[static_cast<size_t>(rank)].has_value(),
                    .last_call = last_seen_[static_cast<size_t>(rank)].last_call});
  }
  return judge({.ranks = ends,
                .stop_signal = stop_signal_,
                .checkpointed = memory_.run_state().checkpointed(),
                .first_failed = first_failed_,
                .if_killed = options_.if_killed ? options_.if_killed(kills_meanwhile()) : "",
                .reason = memory_.abort_reason()});
}

}  // namespace

void AgentOptions::validate() const {
  require_config(ranks >= 1, "ranks is {}: a job has at least one", ranks);
  require_config(part.first_rank >= 0 && part.first_rank + ranks_here() <= ranks,
                 "{} ranks from {} on are here, of {}", ranks_here(), part.first_rank, ranks);
  require_config(threads_per_rank >= 1, "threads_per_rank is {}: it must be at least 1",
                 threads_per_rank);
  require_config(spares >= 0 && (spares == 0 || restarts > 0),
                 "spares is {} and restarts is {}: a spare takes a place only in a restart", spares,
                 restarts);
  require_config(restarts >= 0, "restarts is {}: it must not be negative", restarts);
  const bool waits = watch.stopped_after > milliseconds(0) && watch.hung_after > milliseconds(0) &&
                     watch.stopped_grace >= milliseconds(0);
  require_config(waits, "the bounds of stopped and hung ranks must be more than 0");
  require_config(grace >= milliseconds(0), "grace is {} ms: it must not be negative",
                 grace.count());
  require_config(leave_time >= milliseconds(0), "leave_time is {} ms: it must not be negative",
                 leave_time.count());
}

int run_agent(const AgentOptions& options) {
  options.validate();
  open_standard_descriptors();
  raise_oom_score(kAgentOomScore);
  // Over all generations: a signal that comes between two of them is the next one's.
  SignalInbox signals;
  SparePool spares;
  std::vector<int> replaced;
  RestartLedger ledger(options.restarts);
  AgentOptions now = options;
  const auto resize = [&](int ranks, int generation, const std::string& reason) {
    if (ranks == now.ranks) return;
    if (options.resize.on_resize) {
      options.resize.on_resize(now.ranks, ranks, generation, reason);
    }
    now.ranks = ranks;
    replaced.clear();
  };
  for (int generation = options.part.generation;; ++generation) {
    Agent agent(now, signals, spares, generation, replaced);
    JobEnd end = agent.run();
    if (agent.growing_to() > 0 && options.resize.grow) {
      resize(agent.growing_to(), generation + 1, "");
      continue;
    }
    if (end.culprit) {
      const RankLoss loss = agent.loss(end);
      if (options.on_loss) options.on_loss(loss, agent.run_state());
      const RestartLedger::Answer answer = ledger.after(loss);
      if (answer == RestartLedger::Answer::kRestart && !agent.interrupted()) {
        replaced = agent.lost_ranks(end);
        if (options.on_restart) options.on_restart(loss, generation + 1, ledger.left());
        const auto with_spare = std::min(replaced.size(), static_cast<size_t>(options.spares));
        const std::vector<int> gone(replaced.begin() + static_cast<std::ptrdiff_t>(with_spare),
                                    replaced.end());
        if (options.resize.shrink && !gone.empty()) {
          resize(options.resize.shrink(now.ranks, gone), generation + 1, loss.reason);
        }
        continue;
      }
      if (answer == RestartLedger::Answer::kPoison) {
        end.exit_code = static_cast<int>(ExitCode::kPoison);
        end.message = ledger.poison(loss.step, options.describe_step) + ": " + end.message;
      } else {
        end.message += ledger.history();
      }
    }
    if (options.on_end) options.on_end(agent.run_state());
    agent.tell_end(end);
    return end.exit_code;
  }
}

}  // namespace tessera
