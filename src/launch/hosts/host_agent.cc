#include "launch/hosts/host_agent.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"
#include "launch/agent/signal_inbox.h"
#include "launch/agent/spawn.h"
#include "launch/hosts/generation_process.h"
#include "launch/hosts/handshake.h"
#include "launch/hosts/lease.h"
#include "launch/poll_set.h"
#include "launch/rank_list.h"
#include "launch/rendezvous/frame_body.h"
#include "launch/rendezvous/socket.h"
#include "launch/rendezvous/token.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kConnectTime{1'000};  // one attempt, with the greetings
constexpr milliseconds kPortTime{3'000};
constexpr milliseconds kFirstPause{50};
constexpr milliseconds kLongestPause{500};
constexpr milliseconds kLongestSleep{100};
constexpr milliseconds kAskEvery{10};         // while processes die
constexpr milliseconds kFarewellTime{3'000};  // for the coordinator to end
constexpr int kMostCoordinators = 5;          // that are lost, then the run is
constexpr uint32_t kMostRanks = 4096;

double seconds(milliseconds time) { return std::chrono::duration<double>(time).count(); }

class HostAgent {
 public:
  explicit HostAgent(const HostAgentOptions& options)
      : options_(options), incarnation_(random_token()), heard_at_(Clock::now()) {}

  int run() {
    adopt_orphans();
    if (options_.coordinate) {
      listen();
      start_coordinator();
    }
    while (!end_code_) {
      if (!open() && Clock::now() >= connect_at_) connect();
      if (end_code_) break;
      wait_for_events();
      while (const std::optional<int> signal = signals_.take()) on_signal(*signal);
      hear();
      hear_ranks();
      look_at_ranks();
      look_at_coordinator();
      on_time();
    }
    ranks_.reset();
    end_coordinator();
    return *end_code_;
  }

 private:
  [[nodiscard]] bool open() const { return link_ && link_->open(); }
  void note(const std::string& text) const {
    if (options_.on_note) options_.on_note(text);
  }
  void end(int code) {
    if (!end_code_) end_code_ = code;
  }
  void fail(ExitCode code, const std::string& text) {
    if (!end_code_ && options_.on_failure) options_.on_failure(text);
    end(static_cast<int>(code));
  }
  [[nodiscard]] std::string place() const {
    return address_text(options_.meet_host, options_.meet_port);
  }

  // ---- the coordinator

  // The port is taken for a moment where a former agent of this host has just been killed.
  void listen() {
    for (const auto deadline = Clock::now() + kPortTime;;) {
      try {
        listener_ = listen_on(options_.meet_host, options_.meet_port);
        return;
      } catch (const Error& error) {
        require_config(Clock::now() < deadline,
                       "{}: host 0 runs on the host of --meet, with a port that is free there",
                       error.what());
      }
      std::this_thread::sleep_for(kFirstPause);
    }
  }

  void start_coordinator() {
    coordinator_ = fork_tied("tessera-coord", [this] { return options_.coordinate(listener_.fd); });
  }

  void look_at_coordinator() {
    int status = 0;
    if (coordinator_ == 0 || ::waitpid(coordinator_, &status, WNOHANG) != coordinator_) return;
    const pid_t pid = std::exchange(coordinator_, 0);
    const ChildExit exit = child_exit_from(status);
    hear();  // it may have said good-bye
    if (end_code_) return;
    if (exit.signal == 0) return end(exit.code);
    if (++lost_coordinators_ > kMostCoordinators) {
      return fail(ExitCode::kFailed, fmt::format("the coordinator (pid {}) {}, for the {}th time",
                                                 pid, describe(exit), lost_coordinators_));
    }
    note(fmt::format("the coordinator (pid {}) {}: it is started again", pid, describe(exit)));
    start_coordinator();
  }

  void end_coordinator() {
    const auto deadline = Clock::now() + kFarewellTime;
    link_.reset();
    while (coordinator_ != 0) {
      if (::waitpid(coordinator_, nullptr, WNOHANG) != 0) return;
      if (Clock::now() >= deadline) break;
      std::this_thread::sleep_for(kAskEvery);
    }
    if (coordinator_ == 0) return;
    ::kill(coordinator_, SIGKILL);
    ::waitpid(coordinator_, nullptr, 0);
  }

  // ---- the connection

  void connect() {
    Deadline by = Clock::now() + kConnectTime;
    if (ranks_) by = std::min(by, fence_at());
    const uint64_t has = ranks_ || report_ ? generation_ : 0;
    try {
      ControlLink link(connect_to(options_.meet_host, options_.meet_port, by),
                       "the coordinator at " + place(), /*is_host=*/false);
      const Clock::time_point sent = Clock::now();
      const ControlFrame welcome = introduce(
          link, options_.token,
          {.run = run_,
           .generation = has,
           .body = to_body(HostHello{.host = options_.host, .incarnation = incarnation_})},
          by);
      run_ = welcome.run;
      lease_.time = milliseconds(std::clamp(std::stoll(welcome.body), 1LL, 86'400'000LL));
      link_.emplace(std::move(link));
      heard_at_ = sent;
      sent_.clear();
      pause_ = kFirstPause;
      renew_at_ = sent;
      why_not_.clear();
      if (report_) say_report();
      return;
    } catch (const LinkRefused& refused) {
      why_not_ = refused.what();
      if (refused.for_good()) {
        return fail(ExitCode::kUsage, fmt::format("the coordinator at {} refuses host {}: {}",
                                                  place(), options_.host, refused.what()));
      }
    } catch (const std::exception& error) {
      why_not_ = error.what();
    }
    connect_at_ = Clock::now() + pause_;
    pause_ = std::min(2 * pause_, kLongestPause);
  }

  void say(ControlKind kind, uint64_t generation, std::string body) {
    if (!open()) return;
    link_->send({.kind = kind, .run = run_, .generation = generation, .body = std::move(body)});
  }

  void renew() {
    std::string body;
    put_long(body, ++renewals_);
    sent_.emplace_back(renewals_, Clock::now());
    say(ControlKind::kRenew, ranks_ ? generation_ : 0, body);
    renew_at_ = Clock::now() + lease_.renew_every();
  }

  void hear() {
    try {
      while (open() && !end_code_) {
        const std::optional<ControlFrame> frame = link_->take();
        if (!frame) break;
        on_frame(*frame);
      }
    } catch (const Error& error) {
      note(fmt::format("the coordinator at {} is not understood: {}", place(), error.what()));
      link_.reset();
    }
  }

  void on_frame(const ControlFrame& frame) {
    const bool stale = frame.generation < generation_;
    switch (frame.kind) {
      case ControlKind::kRenewed: {
        FrameBody body(frame.body);
        return on_renewed(body.long_number());
      }
      case ControlKind::kPrepare:
        if (stale || ranks_) return say(ControlKind::kStale, generation_, "");
        if (stop_signal_ != 0) return leave();
        return prepare(frame);
      case ControlKind::kStart:
        if (frame.generation != generation_ || listeners_.empty()) {
          return say(ControlKind::kStale, frame.generation, "");
        }
        return start(parse_start(frame.body));
      case ControlKind::kEnd: {
        if (stale) return say(ControlKind::kStale, generation_, "");
        if (!ranks_) return say(ControlKind::kStale, frame.generation, "");
        FrameBody body(frame.body);
        ordered_ = true;
        const Clock::time_point at = Clock::now() + milliseconds(body.number());
        kill_at_ = std::min(kill_at_.value_or(at), at);
        return;
      }
      case ControlKind::kRanks:
        if (ranks_ && !stale && !ordered_) ranks_->send(frame);
        return;
      case ControlKind::kStale:
        report_.reset();
        if (ranks_ && frame.generation > generation_) ranks_->kill();
        if (!ranks_) say(ControlKind::kStale, frame.generation, "");
        return;
      case ControlKind::kFinish: {
        FrameBody body(frame.body);
        const auto code = static_cast<int>(body.number());
        return finish(code, body.text());
      }
      default:
        throw Error(
            fmt::format("a coordinator does not say {}", static_cast<uint32_t>(frame.kind)));
    }
  }

  void on_renewed(uint64_t number) {
    while (!sent_.empty() && sent_.front().first <= number) {
      heard_at_ = std::max(heard_at_, sent_.front().second);
      sent_.pop_front();
    }
    // What was said before has come as well.
    if (report_ && number > reported_before_) report_.reset();
  }

  void finish(int code, const std::string& message) {
    if (code == 0 || message.empty()) return end(code);
    if (options_.coordinate) return fail(static_cast<ExitCode>(code), message);
    note("the run has ended: " + message);
    end(code);
  }

  // ---- ranks

  void prepare(const ControlFrame& frame) {
    FrameBody body(frame.body);
    const uint32_t count = body.number();
    require(count >= 1 && count <= kMostRanks, "{} ranks", count);
    generation_ = frame.generation;
    report_.reset();
    listeners_.clear();
    std::vector<std::string> addresses;
    try {
      const std::string here = own_address(link_->fd());
      for (uint32_t i = 0; i < count; ++i) {
        listeners_.push_back(listen_on(here, 0));
        addresses.push_back(address_text(here, listeners_.back().port));
      }
    } catch (const Error& error) {
      listeners_.clear();
      report_ = {.exit_code = static_cast<int>(ExitCode::kFailed), .message = error.what()};
      return say_report();
    }
    say(ControlKind::kReady, generation_, to_body(addresses));
  }

  void start(const GenerationStart& start) {
    HostRanks ranks{.run = run_, .generation = generation_, .start = start};
    for (const Listener& listener : listeners_) ranks.listeners.push_back(listener.fd.get());
    if (world_ != 0 && start.world != world_ && options_.on_resize) options_.on_resize();
    world_ = start.world;
    first_rank_ = start.first_rank;
    num_ranks_ = start.ranks;
    ordered_ = fenced_ = false;
    kill_at_.reset();
    ranks_ = std::make_unique<GenerationProcess>([&](ControlLink& link) {
      link_.reset();
      listener_.fd.reset();
      ::pthread_sigmask(SIG_SETMASK, &signals_.previous_mask(), nullptr);
      return options_.run_ranks(ranks, link);
    });
    listeners_.clear();
  }

  // The coordinator judges them. What it does not hear now it hears next time.
  void hear_ranks() {
    while (ranks_) {
      std::optional<ControlFrame> frame = ranks_->take();
      if (!frame) return;
      if (link_ && !link_->has_output()) say(frame->kind, generation_, std::move(frame->body));
    }
  }

  void look_at_ranks() {
    if (!ranks_ || !ranks_->ended(coordinator_)) return;
    report_ = ranks_->report();
    if (ordered_ && (!report_ || report_->exit_code == 1)) {
      // What ranks say that have lost their peers explains nothing, unless it is the cause.
      if (!report_ || !report_->loss) {
        report_ = {.exit_code = 1, .why = GenerationReport::Why::kOrdered};
      }
    } else if (fenced_) {
      report_ = {
          .exit_code = static_cast<int>(ExitCode::kRequeue),
          .message = fmt::format("host {} heard nothing for {:.1f} s and has ended its ranks",
                                 options_.host, seconds(lease_.fence_after())),
          .why = GenerationReport::Why::kFenced};
    } else if (!report_) {
      report_ = lost_report();
    }
    ranks_.reset();
    kill_at_.reset();
    say_report();
    if (stop_signal_ != 0 && !open()) end(kSignalCode + stop_signal_);
  }

  [[nodiscard]] GenerationReport lost_report() const {
    std::vector<int> here;
    for (int rank = first_rank_; rank < first_rank_ + num_ranks_; ++rank) here.push_back(rank);
    RankLoss loss{
        .verdict = Verdict::kLost,
        .generation = static_cast<int>(generation_),
        .rank = first_rank_,
        .pid = ranks_->pid(),
        .exit = ranks_->exit(),
        .reason = fmt::format("the process that watches {} on host {} (pid {}) {}", rank_list(here),
                              options_.host, ranks_->pid(), describe(ranks_->exit())),
        .curable = true};
    return {.exit_code = 1, .message = loss.reason, .loss = loss};
  }

  void say_report() {
    reported_before_ = renewals_;
    say(ControlKind::kEnded, generation_, to_body(*report_));
  }

  // ---- time and signals

  [[nodiscard]] Clock::time_point fence_at() const { return heard_at_ + lease_.fence_after(); }

  void on_time() {
    const Clock::time_point now = Clock::now();
    if (open() && now >= renew_at_) renew();
    if (kill_at_ && ranks_ && now >= *kill_at_) ranks_->kill();
    const bool silent = run_ != 0 && now >= fence_at();
    if (silent && ranks_ && !fenced_) {
      note(
          fmt::format("nothing was heard from the coordinator at {} for {:.1f} s: the ranks of "
                      "this host are ended",
                      place(), seconds(lease_.fence_after())));
      fenced_ = true;
      ranks_->kill();
    }
    if (silent) link_.reset();  // a connection over which nothing comes is none
    if (ranks_ || open() || now < heard_at_ + options_.host_wait) return;
    fail(ExitCode::kRequeue,
         fmt::format("no coordinator at {} for {:.0f} s{}{}: start this command again when host 0 "
                     "can be reached",
                     place(), seconds(options_.host_wait), why_not_.empty() ? "" : ": ", why_not_));
  }

  void on_signal(int signal) {
    if (signal == SIGUSR2 && options_.takes_room) return say(ControlKind::kRoom, 0, "");
    const bool again = stop_signal_ != 0;
    stop_signal_ = signal;
    if (ranks_) return ranks_->signal(signal);
    if (again || !open()) return end(kSignalCode + signal);
    if (!report_) leave();
  }

  void leave() {
    std::string body;
    put_number(body, static_cast<uint32_t>(kSignalCode + stop_signal_));
    put_text(body,
             fmt::format("host {} was stopped by {}", options_.host, signal_name(stop_signal_)));
    say(ControlKind::kLeave, 0, body);
    // Host 0 hears from its coordinator how the run ends.
    if (!options_.coordinate) end(kSignalCode + stop_signal_);
  }

  void wait_for_events() {
    poll_.clear();
    signals_.add_to(poll_);
    if (open()) {
      const int events = POLLIN | (link_->has_output() ? POLLOUT : 0);
      poll_.add(link_->fd(), static_cast<short>(events));
    }
    // Where a process has died and others below it have not, its end of the pipe stays ready.
    milliseconds time = std::min(kLongestSleep, signals_.longest_sleep());
    const bool dies = ranks_ && (kill_at_ || fenced_);
    if (ranks_ && !dies) poll_.add(ranks_->fd(), POLLIN);
    if (dies || coordinator_ == 0) time = std::min(time, kAskEvery * 5);
    poll_.wait(std::min(time, std::max(lease_.renew_every() / 2, milliseconds(1))));
    if (open()) link_->send_some();
  }

  const HostAgentOptions& options_;
  const std::string incarnation_;
  SignalInbox signals_;
  PollSet poll_;

  Listener listener_;  // host 0
  pid_t coordinator_ = 0;
  int lost_coordinators_ = 0;

  std::optional<ControlLink> link_;
  Clock::time_point connect_at_;
  milliseconds pause_ = kFirstPause;
  std::string why_not_;
  uint64_t run_ = 0;
  Lease lease_;
  Clock::time_point heard_at_;  // when the last word that was answered was sent
  Clock::time_point renew_at_;
  uint64_t renewals_ = 0;
  std::deque<std::pair<uint64_t, Clock::time_point>> sent_;

  uint64_t generation_ = 0;
  std::vector<Listener> listeners_;
  std::unique_ptr<GenerationProcess> ranks_;
  int world_ = 0;  // ranks of all hosts, in the last generation that had some here
  int first_rank_ = 0;
  int num_ranks_ = 0;
  bool ordered_ = false;
  bool fenced_ = false;
  std::optional<Clock::time_point> kill_at_;
  std::optional<GenerationReport> report_;  // that the coordinator may not have
  uint64_t reported_before_ = 0;            // the last renewal before it was said

  int stop_signal_ = 0;
  std::optional<int> end_code_;
};

}  // namespace

int run_host_agent(const HostAgentOptions& options) {
  open_standard_descriptors();
  return HostAgent(options).run();
}

}  // namespace tessera
