// Whoever judges the ranks of several hosts (launch/hosts), as the agent of one of them sees it: it
// is told how the ranks here do, and says what is to be done about them.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "comm/run_state.h"
#include "launch/agent/rank_loss.h"
#include "launch/agent/rank_watch.h"

namespace tessera {

// How the ranks of a host do, in their order.
struct HostSight {
  std::vector<RankSight> ranks = {};
  std::vector<pid_t> pids = {};
  RunState run = {};  // as the first of them reported it last
};

// Where they are: RankTrouble::ranks and at, a text for each, and RankTrouble::stacks.
struct HostWhereabouts {
  std::vector<std::string> ranks = {};
  std::vector<std::string> at = {};
  std::string stacks = {};
};

struct RankCommand {
  enum class Kind : uint8_t {
    kSayWhere,  // HostWhereabouts of all ranks here
    kKill,      // this rank, because of this verdict
    kMakeRoom,  // all ranks end after the step at hand, so that more can be started
  };
  Kind kind = Kind::kSayWhere;
  int rank = 0;
  Verdict verdict = Verdict::kHung;
  double seconds = 0;  // for how long it has been so
};

class Overseer {
 public:
  virtual ~Overseer() = default;
  // Ready when it may have an order; -1: it never has.
  [[nodiscard]] virtual int fd() const = 0;
  virtual std::optional<RankCommand> take() = 0;
  virtual void tell(const HostSight& sight) = 0;
  virtual void tell(const HostWhereabouts& whereabouts) = 0;
};

}  // namespace tessera
