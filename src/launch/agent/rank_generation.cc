#include "launch/agent/rank_generation.h"

#include <algorithm>
#include <csignal>

#include "base/error.h"
#include "launch/rank_failure.h"
#include "launch/stop_signals.h"
#include "launch/stop_time.h"

namespace tessera {
namespace {

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
// The signal that a rank which ended in order says it was asked by; 0: its code says something
// else.
int signal_of_stop_code(int code) {
  for (const int signal : kStopSignals) {
    if (code == kSignalCode + signal) return signal;
  }
  return code == kSignalCode + SIGPIPE ? SIGPIPE : 0;
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

}  // namespace

JobEnd RankGeneration::run() {
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

milliseconds RankGeneration::flush_time() const {
  if (stop_signal_ != 0) return kFlushTimeAfterStop;
  return first_failed_ ? kFlushTimeAfterFailure : kFlushTime;
}

void RankGeneration::tell_end(const JobEnd& end) {
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
int RankGeneration::lost_rank(const JobEnd& end) const {
  const std::optional<int> waited_for = rank_waited_for(memory_.abort_reason());
  const bool known = waited_for && *waited_for < options_.ranks;
  return known ? *waited_for : end.culprit.value();
}

RankLoss RankGeneration::loss(const JobEnd& end) const {
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

std::vector<int> RankGeneration::lost_ranks(const JobEnd& end) const {
  std::vector<int> lost;
  for (int rank = 0; rank < options_.ranks; ++rank) {
    const std::optional<ChildExit>& exit = ranks_.exit_of(rank);
    const bool killed = exit && exit->signal != 0 && !killed_[static_cast<size_t>(rank)];
    if (killed || lost_rank(end) == rank) lost.push_back(rank);
  }
  return lost;
}

void RankGeneration::wait_for_events() {
  poll_.clear();
  signals_.add_to(poll_);
  ranks_.add_to(poll_);
  spares_.add_to(poll_);
  output_.add_to(poll_);
  const Overseer* const overseer = options_.part.overseer;
  if (overseer != nullptr && overseer->fd() >= 0) poll_.add(overseer->fd(), POLLIN);
  poll_.wait(std::min({signals_.longest_sleep(), ranks_.longest_sleep(), time_to_next_deadline()}));
}

milliseconds RankGeneration::time_to_next_deadline() const {
  milliseconds time = kLongSleep;
  for (const auto& deadline : {abort_at_, kill_at_, give_up_at_, look_at_}) {
    if (!deadline) continue;
    time = std::min(time, std::chrono::ceil<milliseconds>(*deadline - Clock::now()));
  }
  return time;
}

void RankGeneration::on_signal(int signal) {
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

void RankGeneration::begin_stop(int signal) {
  stop_signal_ = signal;
  stopped_at_ = Clock::now();
  memory_.request_stop(signal);
  // A rank that somebody stopped (SIGSTOP) could not end, and would take the others' work with it.
  ranks_.continue_running();
  be_patient_until(stopped_at_ + stop_time(memory_.run_state(), options_.grace));
}

void RankGeneration::be_patient_until(Clock::time_point time) {
  abort_at_ = time;
  if (!first_failed_) kill_at_ = time + kAbortTime;
}

// After a stop, ranks say 128 + signal as a shell would, and a signal for the whole group hits them
// too.
bool RankGeneration::orderly(const ChildExit& exit) const {
  if (!exit.failed()) return true;
  return stop_signal_ != 0 && (exit.signal == stop_signal_ || signal_of_stop_code(exit.code) != 0);
}

void RankGeneration::on_end(int rank) {
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

void RankGeneration::on_time() {
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

void RankGeneration::kill_ranks() {
  for (int rank = 0; rank < options_.ranks; ++rank) {
    if (ranks_.running(rank)) killed_[static_cast<size_t>(rank)] = true;
  }
  ranks_.kill_running();
  abort_at_.reset();
  kill_at_.reset();
  if (!give_up_at_) give_up_at_ = Clock::now() + kDieTime;
}

std::optional<MemoryKills> RankGeneration::kills_meanwhile() const {
  const std::optional<MemoryKills> now = memory_kills();
  if (!now || !kills_before_) return std::nullopt;
  return MemoryKills{.machine = now->machine - kills_before_->machine,
                     .group = now->group - kills_before_->group};
}

JobEnd RankGeneration::judge_job() const {
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

}  // namespace tessera
