#include "launch/hosts/coordinator.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"
#include "launch/rank_failure.h"
#include "launch/rank_list.h"
#include "launch/rendezvous/frame_body.h"

namespace tessera {
namespace {

using std::chrono::milliseconds;

constexpr int kMaxHost = 4095;
// Ranks whose peer is gone end by themselves; then they are killed.
constexpr milliseconds kLeaveTime{1'500};
constexpr milliseconds kNow{0};
// Ranks that a signal has reached end after the same step.
constexpr milliseconds kStopTime{10'000};
// What an agent gets for opening sockets, and for killing processes.
constexpr milliseconds kAgentTime{30'000};

double seconds(milliseconds time) { return std::chrono::duration<double>(time).count(); }

double unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

bool is_stop(const GenerationReport& report) {
  constexpr int kPreempted = 85;
  return !report.loss && (report.exit_code >= kSignalCode || report.exit_code == kPreempted);
}

}  // namespace

Coordinator::Coordinator(const CoordinatorOptions& options, CoordinatorState state, Time now)
    : options_(options),
      state_(std::move(state)),
      ledger_(options.restarts, state_.failures),
      now_(now),
      phase_since_(now),
      recover_until_(now),
      last_size_(options.hosts) {
  TESSERA_CHECK(options.hosts >= 1 && options.world % options.hosts == 0, "{} ranks on {} hosts",
                options.world, options.hosts);
  if (options_.sizes.empty()) options_.sizes = {options.hosts};
  const auto had = static_cast<int>(state_.places.size());
  const bool fits = std::count(options_.sizes.begin(), options_.sizes.end(), had) > 0;
  const bool goes_on = state_.generation > 0 && fits;
  const bool at_rest = state_.places.empty();
  if (!goes_on) state_.places.resize(static_cast<size_t>(options_.hosts), kNobody);
  if (state_.generation == 0 || at_rest) return;
  if (goes_on) {
    last_size_ = had;
    watch_.emplace(static_cast<int>(state_.generation), had, ranks_per_host(), options_.watch);
  }
  recover_until_ = now + options_.lease;
  phase_ = goes_on ? Phase::kRecover : Phase::kGather;
}

Coordinator::Host* Coordinator::find(int host) {
  const auto found = hosts_.find(host);
  return found == hosts_.end() ? nullptr : &found->second;
}

std::optional<int> Coordinator::place_of(int host) const {
  const auto found = std::find(state_.places.begin(), state_.places.end(), host);
  if (found == state_.places.end()) return std::nullopt;
  return static_cast<int>(found - state_.places.begin());
}

void Coordinator::order(int host, ControlKind kind, uint64_t generation, std::string body) {
  orders_.push_back(
      {host, {.kind = kind, .run = state_.run, .generation = generation, .body = std::move(body)}});
}

void Coordinator::note(const std::string& text) const {
  if (options_.on_note) options_.on_note(text);
}

std::vector<HostOrder> Coordinator::take_orders() { return std::exchange(orders_, {}); }

// ---- who is there

Coordinator::Answer Coordinator::join(Time now, const HostHello& hello, uint64_t run,
                                      uint64_t generation) {
  if (end_) return {.refusal = "the run has ended", .for_good = true};
  if (hello.host < 0 || hello.host > kMaxHost) {
    return {.refusal = fmt::format("host {}: hosts go from 0 to {}", hello.host, kMaxHost),
            .for_good = true};
  }
  if (run != 0 && run != state_.run) {
    return {.refusal = "it belongs to another run", .for_good = true};
  }
  drop_expired(now);
  Host* known = find(hello.host);
  if (known != nullptr && known->incarnation != hello.incarnation) {
    return {.refusal = fmt::format("host {} is there already: give every agent a --host-rank of "
                                   "its own",
                                   hello.host)};
  }
  if (run != 0 && generation > state_.generation) {
    finish(static_cast<int>(ExitCode::kRequeue),
           fmt::format("host {} has ranks of generation {}, and this coordinator knows of {} only: "
                       "another one has gone on",
                       hello.host, generation, state_.generation));
    return {.refusal = "its generation is newer than this coordinator"};
  }
  Host& host = hosts_[hello.host];
  host.incarnation = hello.incarnation;
  host.connected = true;
  host.lease_until = now + options_.lease;
  host.has = generation;
  const bool current = generation == state_.generation;
  if (generation != 0 && !current) order(hello.host, ControlKind::kStale, state_.generation);
  const bool has_place = place_of(hello.host).has_value();
  if (phase_ == Phase::kEndRanks && generation != 0 && current) {
    end_ranks(now, kNow);
  }
  const bool ranks_gone = has_place && generation == 0 && state_.generation > 0 &&
                          (phase_ == Phase::kRecover || phase_ == Phase::kRun) && !host.report;
  if (ranks_gone) {
    count_loss({.verdict = Verdict::kLost,
                .generation = static_cast<int>(state_.generation),
                .rank = *place_of(hello.host) * ranks_per_host(),
                .reason = fmt::format("the agent of host {} has been started again: its ranks are "
                                      "gone",
                                      hello.host),
                .unix_time = unix_now(),
                .curable = true});
    end_ranks(now, kNow);
  }
  return {};
}

void Coordinator::disconnected(int host) {
  if (Host* known = find(host)) known->connected = false;
}

void Coordinator::drop_expired(Time now) {
  std::vector<int> expired;
  for (const auto& [number, host] : hosts_) {
    if (now >= host.lease_until) expired.push_back(number);
  }
  for (const int host : expired) lose_host(host);
}

void Coordinator::lose_host(int number) {
  const Host host = hosts_.at(number);
  hosts_.erase(number);
  const std::optional<int> place = place_of(number);
  const bool had_ranks = place && host.has == state_.generation && host.has != 0;
  const std::string silent = fmt::format("host {} {} for {:.1f} s", number,
                                         host.connected ? "has not been heard of" : "has been gone",
                                         seconds(options_.lease));
  if (!had_ranks) return note(silent);
  const int first = *place * ranks_per_host();
  std::vector<int> ranks;
  for (int rank = first; rank < first + ranks_per_host(); ++rank) ranks.push_back(rank);
  count_loss({.verdict = host.connected ? Verdict::kPartitioned : Verdict::kLost,
              .generation = static_cast<int>(state_.generation),
              .rank = first,
              .reason = fmt::format("{}, and {} with it", silent, rank_list(ranks)),
              .unix_time = unix_now(),
              .curable = true});
}

// The loss of a host explains those of the ranks that talked to it.
void Coordinator::count_loss(const RankLoss& loss) {
  if (loss_is_own_) return;
  loss_ = loss;
  loss_is_own_ = true;
  last_report_ = {.exit_code = static_cast<int>(ExitCode::kRequeue), .message = loss.reason};
}

// ---- what agents say

void Coordinator::hear(Time now, int number, const ControlFrame& frame) {
  Host* host = find(number);
  if (host == nullptr || end_) return;
  host->lease_until = now + options_.lease;
  const bool current = frame.generation == state_.generation;
  if (frame.generation != 0 && !current) order(number, ControlKind::kStale, state_.generation);
  switch (frame.kind) {
    case ControlKind::kRenew:
      order(number, ControlKind::kRenewed, state_.generation, frame.body);
      return;
    case ControlKind::kReady:
      if (current) take_ready(now, number, frame);
      return;
    case ControlKind::kEnded:
      host->has = 0;
      // Where a new generation is being gathered, the end of the last one is known.
      if (current && phase_ != Phase::kGather && place_of(number)) {
        take_report(now, number, parse_report(frame.body));
      }
      return;
    case ControlKind::kSight:
    case ControlKind::kWhere: {
      const std::optional<int> place = place_of(number);
      if (!current || !place || !watch_) return;
      if (frame.kind == ControlKind::kWhere) {
        return watch_->hear(*place, parse_whereabouts(frame.body));
      }
      const HostSight sight = parse_sight(frame.body);
      state_.opened = state_.opened || sight.run.opened;
      return watch_->hear(*place, sight);
    }
    case ControlKind::kRoom:
      asked_for_room_ = true;
      return;
    case ControlKind::kStale:
      host->has = 0;  // it has none of them
      return;
    case ControlKind::kLeave: {
      FrameBody body(frame.body);
      const auto code = static_cast<int>(body.number());
      const std::string why = body.text();
      hosts_.erase(number);
      if (place_of(number) || number == 0) return finish(code, why);
      return note(fmt::format("host {} leaves: {}", number, why));
    }
    default:
      throw Error(fmt::format("an agent does not say {}", static_cast<uint32_t>(frame.kind)));
  }
}

void Coordinator::take_ready(Time now, int number, const ControlFrame& frame) {
  Host& host = *find(number);
  if (phase_ != Phase::kPrepare || !place_of(number)) return;
  host.addresses = parse_texts(frame.body);
  require(host.addresses.size() == static_cast<size_t>(ranks_per_host()),
          "host {} has {} addresses for {} ranks", number, host.addresses.size(), ranks_per_host());
  const bool all = std::all_of(state_.places.begin(), state_.places.end(), [&](int placed) {
    const Host* one = find(placed);
    return one != nullptr && !one->addresses.empty();
  });
  if (all) start_ranks(now);
}

void Coordinator::take_report(Time now, int number, const GenerationReport& report) {
  Host& host = *find(number);
  host.report = report;
  state_.opened = state_.opened || report.opened;
  if (report.why == GenerationReport::Why::kOrdered) return;
  if (report.why == GenerationReport::Why::kFenced) {
    count_loss({.verdict = Verdict::kPartitioned,
                .generation = static_cast<int>(state_.generation),
                .rank = *place_of(number) * ranks_per_host(),
                .reason = report.message,
                .unix_time = unix_now(),
                .curable = true});
    if (phase_ != Phase::kEndRanks) end_ranks(now, kNow);
    return;
  }
  // To nobody else do agents of a run that can grow hand on this signal.
  if (options_.sizes.size() > 1 && report.exit_code == kSignalCode + SIGUSR2) {
    if (why_room_.empty()) why_room_ = "SIGUSR2";
    if (phase_ == Phase::kRun) end_ranks(now, kStopTime);
    return;
  }
  if (is_stop(report)) {
    if (!stop_code_) stop_code_ = report.exit_code;
    last_report_ = report;
    if (phase_ == Phase::kRun) end_ranks(now, kStopTime);
    return;
  }
  if (report.loss) {
    const int first = *place_of(number) * ranks_per_host();
    const std::optional<int> named = rank_of_reason(report.loss->reason);
    const auto here = [&](int rank) { return rank >= first && rank < first + ranks_per_host(); };
    const bool own = here(report.loss->rank) && (!named || here(*named));
    if (!loss_ || (own && !loss_is_own_)) {
      loss_ = report.loss;
      loss_is_own_ = own;
      last_report_ = report;
    }
    if (phase_ == Phase::kRun || phase_ == Phase::kRecover) end_ranks(now, kLeaveTime);
    return;
  }
  if (report.exit_code != 0) return finish(report.exit_code, report.message);
  const bool all = std::all_of(state_.places.begin(), state_.places.end(), [&](int placed) {
    const Host* one = find(placed);
    return one != nullptr && one->report && one->report->exit_code == 0;
  });
  if (all) finish(0, "");
}

// ---- generations

void Coordinator::tick(Time now) {
  if (end_) return;
  now_ = now;
  drop_expired(now);
  if (loss_ && (phase_ == Phase::kRun || phase_ == Phase::kPrepare)) end_ranks(now, kNow);
  switch (phase_) {
    case Phase::kGather:
      return gather(now);
    case Phase::kPrepare: {
      const bool late = now >= phase_since_ + kAgentTime;
      const bool lost = std::any_of(state_.places.begin(), state_.places.end(),
                                    [&](int placed) { return find(placed) == nullptr; });
      if (!late && !lost) return;
      phase_ = Phase::kGather;
      phase_since_ = now;
      return;
    }
    case Phase::kRun:
      watch_ranks(now);
      return look_for_room();
    case Phase::kRecover:
      return look_at_recovery(now);
    case Phase::kEndRanks:
      return look_at_ends(now);
  }
}

void Coordinator::begin_generation(Time now) {
  ++state_.generation;
  if (options_.keep) options_.keep(state_);
  if (cured_ && options_.on_restart) {
    options_.on_restart(*cured_, static_cast<int>(state_.generation), ledger_.left());
  }
  const auto size = static_cast<int>(state_.places.size());
  if (size != last_size_ && options_.on_resize) {
    options_.on_resize(last_size_ * ranks_per_host(), size * ranks_per_host(),
                       static_cast<int>(state_.generation),
                       !why_room_.empty() ? why_room_
                       : cured_           ? cured_->reason
                                          : "not all hosts are there");
  }
  last_size_ = size;
  begun_ = true;
  cured_.reset();
  loss_.reset();
  loss_is_own_ = false;
  stop_code_.reset();
  why_room_.clear();
  asked_for_room_ = false;
  first_step_ = -1;
  watch_.emplace(static_cast<int>(state_.generation), size, ranks_per_host(), options_.watch);
  phase_ = Phase::kPrepare;
  phase_since_ = now;
  std::string ranks;
  put_number(ranks, static_cast<uint32_t>(ranks_per_host()));
  for (const int placed : state_.places) {
    Host& host = *find(placed);
    host.addresses.clear();
    host.report.reset();
    order(placed, ControlKind::kPrepare, state_.generation, ranks);
  }
}

void Coordinator::start_ranks(Time now) {
  phase_ = Phase::kRun;
  phase_since_ = now;
  const auto size = static_cast<int>(state_.places.size());
  GenerationStart start{.ranks = ranks_per_host(), .world = size * ranks_per_host()};
  for (const int placed : state_.places) {
    const std::vector<std::string>& addresses = find(placed)->addresses;
    start.addresses.insert(start.addresses.end(), addresses.begin(), addresses.end());
  }
  if (options_.environment) start.environment = options_.environment(state_.opened, size);
  for (const int placed : state_.places) {
    find(placed)->has = state_.generation;
    order(placed, ControlKind::kStart, state_.generation, to_body(start));
    start.first_rank += ranks_per_host();
  }
}

void Coordinator::end_ranks(Time now, milliseconds grace) {
  if (phase_ != Phase::kEndRanks) phase_since_ = now;
  phase_ = Phase::kEndRanks;
  std::string body;
  put_number(body, static_cast<uint32_t>(grace.count()));
  for (const int placed : state_.places) {
    const Host* host = find(placed);
    if (host == nullptr || host->has != state_.generation) continue;
    order(placed, ControlKind::kEnd, state_.generation, body);
  }
}

// ---- while ranks run

void Coordinator::watch_ranks(Time now) {
  if (options_.restarts == 0 || !watch_) return;
  const HostsWatch::Findings found = watch_->look(now);
  for (const RankTrouble& trouble : found.troubles) {
    if (options_.on_trouble) options_.on_trouble(trouble, state_.opened);
  }
  for (const HostsWatch::Order& one : found.orders) {
    order(state_.places[static_cast<size_t>(one.place)], ControlKind::kRanks, state_.generation,
          to_body(one.order));
  }
}

void Coordinator::look_at_recovery(Time now) {
  const bool all = std::all_of(state_.places.begin(), state_.places.end(), [&](int placed) {
    const Host* host = find(placed);
    return host != nullptr && host->has == state_.generation;
  });
  if (all) {
    phase_ = Phase::kRun;
    return note(
        fmt::format("all hosts still have their ranks: generation {} goes on", state_.generation));
  }
  if (now < recover_until_) return;
  for (const int placed : state_.places) {
    if (find(placed) != nullptr) continue;
    count_loss({.verdict = Verdict::kLost,
                .generation = static_cast<int>(state_.generation),
                .rank = *place_of(placed) * ranks_per_host(),
                .reason = fmt::format("host {} has not come back to the new coordinator", placed),
                .unix_time = unix_now(),
                .curable = true});
    break;
  }
  end_ranks(now, kNow);
}

void Coordinator::look_at_ends(Time now) {
  for (const int placed : state_.places) {
    const Host* host = find(placed);
    // A host that was there before this coordinator keeps its ranks for a lease.
    if (host == nullptr && now < recover_until_) return;
    if (host == nullptr || host->has != state_.generation) continue;
    if (now < phase_since_ + kStopTime + kAgentTime) return;
    return finish(static_cast<int>(ExitCode::kFailed),
                  fmt::format("host {} does not end its ranks", placed));
  }
  decide(now);
}

void Coordinator::decide(Time now) {
  if (stop_code_) return finish(*stop_code_, last_report_.message);
  if (!loss_ && !why_room_.empty()) {
    phase_ = Phase::kGather;
    phase_since_ = now;
    return gather(now);
  }
  TESSERA_CHECK(loss_.has_value(), "ranks of generation {} were ended for nothing",
                state_.generation);
  const RankLoss loss = *loss_;
  if (options_.on_loss) options_.on_loss(loss, state_.opened);
  switch (ledger_.after(loss)) {
    case RestartLedger::Answer::kRestart:
      cured_ = std::exchange(loss_, std::nullopt);
      loss_is_own_ = false;
      why_room_.clear();
      keep_failures();
      phase_ = Phase::kGather;
      phase_since_ = now;
      gather(now);
      if (phase_ == Phase::kGather && !end_) {
        note(fmt::format("{}: waits for hosts, for {:.0f} s at most", loss.reason,
                         seconds(options_.host_wait)));
      }
      return;
    case RestartLedger::Answer::kEnd:
      return finish(last_report_.exit_code, last_report_.message + ledger_.history());
    case RestartLedger::Answer::kPoison:
      return finish(static_cast<int>(ExitCode::kPoison),
                    fmt::format("{}: {}", ledger_.poison(loss.step, options_.describe_step),
                                last_report_.message));
  }
}

// A coordinator that comes after this one counts on, and need not wait for the ranks, which are
// gone.
void Coordinator::keep_failures() {
  state_.failures = ledger_.past();
  CoordinatorState kept = state_;
  kept.places.clear();
  if (options_.keep) options_.keep(kept);
}

void Coordinator::finish(int exit_code, const std::string& message) {
  if (end_) return;
  end_ = {exit_code, message, state_.opened};
  if (all_ranks_gone() && options_.keep) {
    state_.places.clear();  // whoever goes on need not wait for anybody's lease
    state_.failures = {};   // and has all restarts
    options_.keep(state_);
  }
  std::string body;
  put_number(body, static_cast<uint32_t>(exit_code));
  put_text(body, message);
  for (const auto& [number, host] : hosts_) {
    order(number, ControlKind::kFinish, state_.generation, body);
  }
}

bool Coordinator::all_ranks_gone() const {
  if (state_.generation == 0 || now_ < recover_until_) return false;
  const bool told = std::all_of(hosts_.begin(), hosts_.end(),
                                [](const auto& entry) { return entry.second.has == 0; });
  // A host that is not there any more has lost its lease, or has left without ranks.
  return told && (phase_ == Phase::kGather || phase_ == Phase::kEndRanks || phase_ == Phase::kRun);
}

Coordinator::Time Coordinator::next_deadline() const {
  // Leases and phases are looked at often enough to be met closely; nothing is lost by a look.
  Time next = phase_since_ + options_.host_wait;
  for (const auto& [number, host] : hosts_) next = std::min(next, host.lease_until);
  if (phase_ == Phase::kRecover || phase_ == Phase::kGather) next = std::min(next, recover_until_);
  return next;
}

}  // namespace tessera
