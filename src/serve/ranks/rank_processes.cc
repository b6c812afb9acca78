#include "serve/ranks/rank_processes.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/failure.h"
#include "comm/shm/shm_world.h"
#include "launch/agent/child_watch.h"
#include "launch/agent/job_end.h"
#include "launch/agent/output/output_forwarder.h"
#include "launch/agent/spawn.h"
#include "launch/cores.h"
#include "launch/oom_score.h"
#include "launch/poll_set.h"
#include "launch/rendezvous/token.h"
#include "launch/stop_signals.h"
#include "serve/ranks/rank_link.h"

namespace tessera::serve {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// After SIGKILL only a process that hangs inside the kernel is still there.
constexpr milliseconds kDieTime{2'000};
constexpr milliseconds kFlushTime{100};
constexpr milliseconds kIdle{250};  // between two looks, while there is nothing to compute

UniqueFd make_event() {
  UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  require(event.valid(), "cannot make an eventfd: {}; raise the limit with 'ulimit -n'",
          std::strerror(errno));
  return event;
}

void signal_event(int event) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(event, &one, sizeof(one));
}

void clear_event(int event) {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(event, &count, sizeof(count));
}

UniqueFd open_nothing() {
  UniqueFd fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  require(fd.valid(), "cannot open /dev/null for the ranks: {}", std::strerror(errno));
  return fd;
}

// Those that ask a run to stop; what blocks them in the parent blocks them in the rank, for good.
sigset_t signals_of_ranks() {
  sigset_t set;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &set);
  for (const int signal : kStopSignals) sigaddset(&set, signal);
  return set;
}

}  // namespace

class RankProcesses::Keeper {
 public:
  explicit Keeper(RankProcessesOptions options)
      : options_(std::move(options)),
        memory_(ShmMemory::create(
            {.ranks = options_.ranks, .bytes_per_rank = options_.bytes_per_rank})),
        output_(options_.err_fd, options_.err_fd),
        wake_(make_event()),
        decided_(make_event()),
        watch_(options_.watch),
        last_seen_(static_cast<size_t>(options_.ranks)),
        condemned_(static_cast<size_t>(options_.ranks)),
        killed_(static_cast<size_t>(options_.ranks), false) {
    std::promise<void> started;
    std::future<void> is_started = started.get_future();
    thread_ = std::thread([this, &started] { run(started); });
    try {
      is_started.get();
    } catch (...) {
      thread_.join();
      throw;
    }
  }
  ~Keeper() {
    end(milliseconds(0));
    thread_.join();
  }
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  std::vector<UniqueFd> take_sockets() { return std::move(sockets_); }
  [[nodiscard]] pid_t pid(int rank) const { return ranks_.pid(rank); }
  [[nodiscard]] int verdict_fd() const { return decided_.get(); }
  [[nodiscard]] std::optional<RankVerdict> verdict() const {
    const std::scoped_lock lock(mutex_);
    return verdict_;
  }
  void set_on_verdict(std::function<void(const RankVerdict&)> on_verdict) {
    const std::scoped_lock lock(mutex_);
    on_verdict_ = std::move(on_verdict);
    if (verdict_ && on_verdict_) on_verdict_(*verdict_);
  }
  void frames_under_way(const std::optional<FramesUnderWay>& frames) {
    bool begins = false;
    {
      const std::scoped_lock lock(mutex_);
      begins = frames && !frames_;
      frames_ = frames;
    }
    // It may be asleep for longer than a look is late.
    if (begins && !busy_.exchange(true)) signal_event(wake_.get());
  }
  [[nodiscard]] uint64_t progress() const {
    uint64_t all = 0;
    for (int rank = 0; rank < options_.ranks; ++rank) {
      const RankProgress one = memory_.progress(rank);
      all += one.beats + one.calls + one.instructions;
    }
    return all;
  }
  void condemn(int rank, const std::string& why) {
    {
      const std::scoped_lock lock(mutex_);
      asked_.emplace_back(rank, why);
    }
    signal_event(wake_.get());
  }
  void end(milliseconds grace) {
    {
      const std::scoped_lock lock(mutex_);
      if (!end_by_) end_by_ = Clock::now() + grace;
    }
    signal_event(wake_.get());
    std::unique_lock lock(mutex_);
    gone_.wait_for(lock, grace + kDieTime + milliseconds(500), [&] { return all_gone_; });
  }

 private:
  void run(std::promise<void>& started);
  void start_all();
  void start(int rank, const SpawnRequest& like, const std::vector<Core>& cores);
  void loop();
  void wait_for_events();
  void hear();
  void on_end(int rank);
  void on_time();
  void look();
  void lose(int rank, std::string how);
  void kill_all();
  void decide();
  [[nodiscard]] std::string doings() const;

  RankProcessesOptions options_;
  ShmMemory memory_;
  OutputForwarder output_;
  UniqueFd wake_;
  UniqueFd decided_;
  FrameWatch watch_;
  ChildWatch ranks_;
  PollSet poll_;
  std::vector<UniqueFd> sockets_;

  // The thread alone has these.
  std::vector<ShmRankStatus> last_seen_;
  std::vector<std::string> condemned_;  // how, of those that we kill for a reason of their own
  std::vector<bool> killed_;            // because others failed
  std::optional<int> first_failed_;
  bool ending_ = false;
  std::optional<Clock::time_point> kill_at_;
  std::optional<Clock::time_point> give_up_at_;
  Clock::time_point look_at_;

  std::atomic<bool> busy_{false};  // it looks often
  mutable std::mutex mutex_;
  std::optional<FramesUnderWay> frames_;            // guarded by mutex_
  std::vector<std::pair<int, std::string>> asked_;  // guarded by mutex_, as are those below
  std::optional<Clock::time_point> end_by_;
  std::optional<RankVerdict> verdict_;
  std::function<void(const RankVerdict&)> on_verdict_;
  bool all_gone_ = false;
  std::condition_variable gone_;
  std::thread thread_;
};

void RankProcesses::Keeper::run(std::promise<void>& started) {
  try {
    start_all();
  } catch (...) {
    ranks_.kill_running();
    started.set_exception(std::current_exception());
    return;
  }
  started.set_value();
  loop();
  output_.finish(kFlushTime, [] { return false; });
  const std::scoped_lock lock(mutex_);
  all_gone_ = true;
  gone_.notify_all();
}

void RankProcesses::Keeper::start_all() {
  SpawnRequest like;
  like.executable = options_.executable.empty() ? "/proc/self/exe" : options_.executable;
  like.arguments = options_.arguments;
  like.environment = options_.environment;
  like.oom_score = kRankOomScore;
  like.signal_mask = signals_of_ranks();
  const auto tell = [&](std::string_view name, const std::string& value) {
    like.environment.insert_or_assign(std::string(name), value);
  };
  tell(agent_variable::kSize, std::to_string(options_.ranks));
  tell(agent_variable::kMemory, std::to_string(memory_.fd()));
  tell(agent_variable::kToken, random_token());
  tell(agent_variable::kGeneration, std::to_string(options_.generation));
  const std::vector<Core> cores = allowed_cores();
  for (int rank = 0; rank < options_.ranks; ++rank) start(rank, like, cores);
  ranks_.open_pidfds();
}

void RankProcesses::Keeper::start(int rank, const SpawnRequest& like,
                                  const std::vector<Core>& cores) {
  SpawnRequest request = like;
  request.name = fmt::format("{}rank {}", options_.name, rank);
  const auto tell = [&](std::string_view name, const std::string& value) {
    request.environment.insert_or_assign(std::string(name), value);
  };
  LinkPair link = make_link_pair();
  tell(agent_variable::kRank, std::to_string(rank));
  tell(agent_variable::kLocalRank, std::to_string(rank));
  tell(agent_variable::kFrames, std::to_string(link.rank.get()));
  const UniqueFd no_input = open_nothing();
  const UniqueFd out = output_.open_pipe(fmt::format("[{}rank {}] ", options_.name, rank),
                                         OutputForwarder::Target::kErr);
  request.stdin_fd = no_input.get();
  request.stdout_fd = out.get();
  request.stderr_fd = out.get();
  request.inherited_fd = memory_.fd();
  request.listener_fd = link.rank.get();
  const int places = options_.places > 0 ? options_.places : options_.ranks;
  request.cpus =
      share_of_cores(cores, options_.first_place + rank, places, options_.threads_per_rank);
  ranks_.add(spawn_child(request));
  sockets_.push_back(std::move(link.front));
}

void RankProcesses::Keeper::loop() {
  while (ranks_.num_running() > 0) {
    if (give_up_at_ && Clock::now() >= *give_up_at_) break;
    wait_for_events();
    hear();
    output_.forward(poll_);
    for (const int rank : ranks_.reap(poll_)) on_end(rank);
    on_time();
    const bool over = give_up_at_ || ranks_.num_running() == 0;
    if (first_failed_ && over && !verdict()) decide();
  }
}

void RankProcesses::Keeper::wait_for_events() {
  poll_.clear();
  poll_.add(wake_.get(), POLLIN);
  ranks_.add_to(poll_);
  output_.add_to(poll_);
  milliseconds time = std::min(ranks_.longest_sleep(), kIdle);
  const Clock::time_point now = Clock::now();
  for (const auto& deadline : {kill_at_, give_up_at_}) {
    if (deadline) time = std::min(time, std::chrono::ceil<milliseconds>(*deadline - now));
  }
  if (busy_) time = std::min(time, options_.watch.tick());
  poll_.wait(std::max(time, milliseconds(0)));
}

// What others ask of this thread.
void RankProcesses::Keeper::hear() {
  clear_event(wake_.get());
  std::vector<std::pair<int, std::string>> asked;
  {
    const std::scoped_lock lock(mutex_);
    asked.swap(asked_);
    if (end_by_ && !ending_) {
      ending_ = true;
      if (!first_failed_) kill_at_ = *end_by_;
    }
  }
  for (auto& [rank, why] : asked) {
    if (ranks_.running(rank)) lose(rank, why);
  }
}

void RankProcesses::Keeper::on_end(int rank) {
  const auto place = static_cast<size_t>(rank);
  if (killed_[place]) return;
  // Now, because the group that it speaks of may be gone later.
  last_seen_[place] = memory_.status(rank);
  const ChildExit exit = *ranks_.exit_of(rank);
  if (ending_ && !exit.failed()) {
    memory_.report_exit(rank, describe(exit));
    return;
  }
  if (last_seen_[place].state == ShmRankState::kAbsent) {
    memory_.abort(fmt::format("rank {} (pid {}) {} before it joined the others", rank,
                              ranks_.pid(rank), describe(exit)));
  }
  memory_.report_death(rank, condemned_[place].empty() ? describe(exit) : condemned_[place]);
  if (!first_failed_) first_failed_ = rank;
  const Clock::time_point kill_at = Clock::now() + options_.leave_time;
  kill_at_ = std::min(kill_at_.value_or(kill_at), kill_at);
}

// Its process is there: it is killed, and so lost for the reason that is given.
void RankProcesses::Keeper::lose(int rank, std::string how) {
  if (first_failed_) return;
  condemned_[static_cast<size_t>(rank)] = std::move(how);
  ranks_.kill_child(rank);
}

void RankProcesses::Keeper::on_time() {
  const Clock::time_point now = Clock::now();
  if (kill_at_ && now >= *kill_at_) kill_all();
  if (now < look_at_) return;
  look_at_ = now + options_.watch.tick();
  if (!first_failed_ && !ending_) look();
}

void RankProcesses::Keeper::look() {
  std::vector<RankSight> sights;
  for (int rank = 0; rank < options_.ranks; ++rank) {
    sights.push_back({.running = ranks_.running(rank),
                      .stopped = ranks_.stopped(rank),
                      .progress = memory_.progress(rank)});
  }
  std::optional<FramesUnderWay> frames;
  {
    const std::scoped_lock lock(mutex_);
    frames = frames_;
  }
  busy_ = frames.has_value();
  const std::optional<FrameWatch::Finding> found = watch_.look(Clock::now(), sights, frames);
  if (!found) return;
  const double seconds = std::chrono::duration<double>(found->time).count();
  const bool hung = found->verdict == Verdict::kHung;
  std::string how = fmt::format("{} for {:.1f} s and was killed, {}", hung ? "hung" : "was stopped",
                                seconds, frame_text(memory_.progress(found->rank).step));
  lose(found->rank, std::move(how));
}

void RankProcesses::Keeper::kill_all() {
  for (int rank = 0; rank < options_.ranks; ++rank) {
    if (!ranks_.running(rank)) continue;
    killed_[static_cast<size_t>(rank)] = true;
    last_seen_[static_cast<size_t>(rank)] = memory_.status(rank);
  }
  ranks_.kill_running();
  kill_at_.reset();
  if (!give_up_at_) give_up_at_ = Clock::now() + kDieTime;
}

// "rank 0 in frame 7, rank 1 after frame 6"
std::string RankProcesses::Keeper::doings() const {
  std::string text;
  for (int rank = 0; rank < options_.ranks; ++rank) {
    const int64_t step = last_seen_[static_cast<size_t>(rank)].progress.step;
    text += fmt::format("{}rank {} {}", rank == 0 ? "" : ", ", rank, frame_text(step));
  }
  return text;
}

// As soon as it is known: what is killed may need a while to give its memory back.
void RankProcesses::Keeper::decide() {
  const std::optional<ChildExit> killed = ChildExit{.code = 0, .signal = SIGKILL};
  std::vector<RankEnd> ends;
  for (int rank = 0; rank < options_.ranks; ++rank) {
    const auto place = static_cast<size_t>(rank);
    ends.push_back({.pid = ranks_.pid(rank),
                    .exit = killed_[place] ? killed : ranks_.exit_of(rank),
                    .killed_by_agent = killed_[place],
                    .killed_by_verdict = !condemned_[place].empty(),
                    .last_call = last_seen_[place].last_call});
  }
  const JobEnd end =
      judge({.ranks = ends, .first_failed = first_failed_, .reason = memory_.abort_reason()});
  RankVerdict verdict{.message = options_.name + end.message,
                      .exit_code = end.exit_code,
                      .curable = end.curable,
                      .rank = end.culprit.value_or(*first_failed_)};
  const bool computed = std::any_of(last_seen_.begin(), last_seen_.end(),
                                    [](const auto& seen) { return seen.progress.step > 0; });
  if (computed && end.curable) verdict.message += fmt::format(" ({})", doings());
  const std::scoped_lock lock(mutex_);
  verdict_ = std::move(verdict);
  if (on_verdict_) on_verdict_(*verdict_);
  signal_event(decided_.get());
}

RankProcesses::RankProcesses(RankProcessesOptions options)
    : keeper_(std::make_unique<Keeper>(std::move(options))) {}
RankProcesses::~RankProcesses() = default;

std::vector<UniqueFd> RankProcesses::take_sockets() { return keeper_->take_sockets(); }
pid_t RankProcesses::pid(int rank) const { return keeper_->pid(rank); }
int RankProcesses::verdict_fd() const { return keeper_->verdict_fd(); }
std::optional<RankVerdict> RankProcesses::verdict() const { return keeper_->verdict(); }
void RankProcesses::set_on_verdict(std::function<void(const RankVerdict&)> on_verdict) {
  keeper_->set_on_verdict(std::move(on_verdict));
}
void RankProcesses::frames_under_way(const std::optional<FramesUnderWay>& frames) {
  keeper_->frames_under_way(frames);
}
uint64_t RankProcesses::progress() const { return keeper_->progress(); }
void RankProcesses::condemn(int rank, const std::string& why) { keeper_->condemn(rank, why); }
void RankProcesses::end(milliseconds grace) { keeper_->end(grace); }

}  // namespace tessera::serve
