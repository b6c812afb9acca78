// Which hosts have ranks, in which generation, and when the next one starts: the decisions of the
// agent of host 0. Pure: the time is an argument, orders to the agents are returned, what must be
// on disk first is given to a function.
//
// A run has `hosts` places, each with as many ranks; host numbers from `hosts` on are spares that
// take the place of a host that is lost. An agent holds a lease, renewed by every word from it. The
// lease of an agent that is silent ends here later than there (launch/hosts/lease.h), where the
// agent has ended its ranks by then. A generation starts only when every agent that had ranks has
// said that they are gone, or has lost its lease; its number is on disk before anybody hears of it.
//
// Where a run may have other numbers of hosts (`sizes`), one that has lost a host waits for another
// for a lease and goes on with those that are there; and when a host waits that there is room for,
// the ranks are asked to stop after a step, and start again on all of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launch/agent/restart_ledger.h"
#include "launch/hosts/control_frame.h"
#include "launch/hosts/host_messages.h"
#include "launch/hosts/hosts_watch.h"

namespace tessera {

// What outlives a coordinator.
struct CoordinatorState {
  uint64_t run = 0;
  uint64_t generation = 0;       // the last one that was begun; 0: none
  std::vector<int> places = {};  // the hosts that have its ranks; none: they are all gone
  bool opened = false;           // the run directory is this run's
  PastFailures failures = {};
};

struct CoordinatorOptions {
  int hosts = 1;
  int world = 1;  // ranks of all hosts; a multiple of `hosts`
  int restarts = 0;
  std::chrono::milliseconds lease{5'000};
  std::chrono::milliseconds host_wait{60'000};  // for hosts that are missing
  std::vector<int> sizes = {};  // numbers of hosts that the run may have; none: `hosts` alone
  int64_t grow_after = 0;       // steps of a generation until a host that waits gets ranks
  WatchBounds watch = {};       // of ranks that are stopped or hung; only with restarts
  // Called before an order about it is given. Throws where the state cannot be kept.
  std::function<void(const CoordinatorState&)> keep = nullptr;
  // For people and events.
  std::function<void(const std::string& note)> on_note = nullptr;
  std::function<void(const RankLoss& loss, bool opened)> on_loss = nullptr;
  std::function<void(const RankLoss& loss, int generation, int left)> on_restart = nullptr;
  std::function<void(const RankTrouble& trouble, bool opened)> on_trouble = nullptr;
  // Before a generation with another number of ranks starts.
  std::function<void(int before, int ranks, int generation, const std::string& reason)> on_resize =
      nullptr;
  // What a step read, for the message of one that fails again and again.
  std::function<std::string(int64_t step)> describe_step = nullptr;
  // What the ranks of a generation are told: "NAME=value". `opened`: they go on with the run that
  // is in its directory.
  std::function<std::vector<std::string>(bool opened, int hosts)> environment = nullptr;
};

struct HostOrder {
  int host = 0;
  ControlFrame frame;
};

struct RunEnd {
  int exit_code = 0;
  std::string message;  // empty: nothing to say
  bool opened = false;  // the run directory is this run's
};

class Coordinator {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // With a generation in `state`: its ranks may still run, and their agents come back within a
  // lease, or are lost.
  Coordinator(const CoordinatorOptions& options, CoordinatorState state, Time now);

  struct Answer {
    std::string refusal = {};  // empty: welcome
    bool for_good = false;
  };
  // An agent has come that knows the token.
  Answer join(Time now, const HostHello& hello, uint64_t run, uint64_t generation);
  // What the agent of a host says; `connected` afterwards.
  void hear(Time now, int host, const ControlFrame& frame);
  // Its connection is gone: it may come back while its lease lasts.
  void disconnected(int host);
  void tick(Time now);

  std::vector<HostOrder> take_orders();
  [[nodiscard]] const std::optional<RunEnd>& end() const { return end_; }
  [[nodiscard]] Time next_deadline() const;
  [[nodiscard]] const CoordinatorState& state() const { return state_; }

 private:
  struct Host {
    std::string incarnation;
    bool connected = false;
    Time lease_until;
    uint64_t has = 0;  // the generation whose ranks it has, or has not reported the end of
    std::vector<std::string> addresses;  // for the generation at hand
    std::optional<GenerationReport> report;
  };
  enum class Phase : uint8_t {
    kGather,    // waits for hosts
    kPrepare,   // hosts open sockets
    kRun,       // ranks run
    kEndRanks,  // waits until all are gone
    kRecover,   // after a start with the state of a former coordinator
  };

  static constexpr int kNobody = -1;  // at a place

  [[nodiscard]] int ranks_per_host() const { return options_.world / options_.hosts; }
  [[nodiscard]] Host* find(int host);
  [[nodiscard]] std::optional<int> place_of(int host) const;
  void order(int host, ControlKind kind, uint64_t generation, std::string body = {});
  void note(const std::string& text) const;
  void drop_expired(Time now);
  void lose_host(int host);
  void count_loss(const RankLoss& loss);
  void end_ranks(Time now, std::chrono::milliseconds grace);
  void gather(Time now);
  void fit_places(Time now);
  void fill_places(bool with_spares);
  [[nodiscard]] int fitting_size() const;
  void watch_ranks(Time now);
  void look_for_room();
  void begin_generation(Time now);
  void take_ready(Time now, int host, const ControlFrame& frame);
  void start_ranks(Time now);
  void take_report(Time now, int host, const GenerationReport& report);
  void look_at_recovery(Time now);
  void look_at_ends(Time now);
  void decide(Time now);
  void keep_failures();
  void finish(int exit_code, const std::string& message);
  [[nodiscard]] bool all_ranks_gone() const;
  [[nodiscard]] std::string missing_text() const;

  CoordinatorOptions options_;
  CoordinatorState state_;
  RestartLedger ledger_;
  Phase phase_ = Phase::kGather;
  std::map<int, Host> hosts_;
  Time now_;  // of the last tick
  Time phase_since_;
  Time recover_until_;
  std::optional<RankLoss> loss_;     // why the generation at hand ends: the one to blame
  bool loss_is_own_ = false;         // told by the host whose rank it is
  std::optional<RankLoss> cured_;    // that the next generation makes good
  std::optional<HostsWatch> watch_;  // of the generation at hand
  bool begun_ = false;               // a generation, by this coordinator
  int last_size_;                    // hosts of the last generation
  int64_t first_step_ = -1;          // that was done when this generation was seen first
  bool asked_for_room_ = false;
  std::string why_room_;          // the ranks are stopping to make room; empty: they are not
  GenerationReport last_report_;  // of a job that ends
  std::optional<int> stop_code_;  // a host has ended in order, asked by a signal
  std::vector<HostOrder> orders_;
  std::optional<RunEnd> end_;
};

}  // namespace tessera
