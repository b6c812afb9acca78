// Which ranks of a generation do not go on, seen over all its hosts: the RankWatch of one host,
// with what their agents tell. Pure: the time is an argument, orders to the agents are returned.
//
// It looks when every host has told how its ranks do since the last look: a host that is silent
// proves nothing here, and its lease says what becomes of it. Of a rank that hangs all hosts are
// asked first where their ranks are, and have kAnswerWait to say so.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "launch/agent/overseer.h"
#include "launch/agent/rank_watch.h"

namespace tessera {

class HostsWatch {
 public:
  using Time = RankWatch::Time;
  static constexpr std::chrono::milliseconds kAnswerWait{2'000};

  // The host at place P has the ranks from P * ranks_per_host on.
  HostsWatch(int generation, int places, int ranks_per_host, const WatchBounds& bounds);

  // What the host at a place tells. Throws Error where it speaks of another number of ranks.
  void hear(int place, const HostSight& sight);
  void hear(int place, HostWhereabouts whereabouts);

  struct Order {
    int place = 0;
    RankCommand order;
  };
  struct Findings {
    std::vector<RankTrouble> troubles = {};  // to be said
    std::vector<Order> orders = {};
  };
  Findings look(Time now);

  [[nodiscard]] const RunState& run() const { return run_; }  // as rank 0 reported it last

 private:
  struct Hung {
    WatchFinding finding;
    Time since;
  };
  [[nodiscard]] RankTrouble trouble_of(const WatchFinding& finding) const;
  void take(const WatchFinding& finding, Time now, Findings& found);
  void tell_hung(Findings& found);
  void order_kill(const RankTrouble& trouble, Findings& found) const;

  int generation_;
  int ranks_per_host_;
  RankWatch watch_;
  std::vector<RankSight> ranks_;
  std::vector<pid_t> pids_;
  std::vector<bool> heard_;  // by place, since the last look
  std::vector<std::optional<HostWhereabouts>> whereabouts_;
  std::optional<Hung> hung_;
  RunState run_;
};

}  // namespace tessera
