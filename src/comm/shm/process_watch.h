// Tells which of the processes of a world are alive, stopped or gone: through pidfds, where they
// are refused through /proc, and where descriptors run out by asking whether the process exists.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comm/shared/domain.h"

namespace tessera {

// When the process started, in ticks since the machine did: tells it from a later one with the same
// number. 0 when that cannot be found out.
uint64_t process_start_ticks(pid_t pid);

class ProcessWatch final : public shared::Liveness {
 public:
  explicit ProcessWatch(shared::WorldBlock& world);
  ~ProcessWatch() override;
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  std::optional<std::string> gone(int world_rank) override;
  std::optional<std::string> lost() override;
  std::string describe(int world_rank) override;

 private:
  using Clock = std::chrono::steady_clock;

  struct Peer {
    int pidfd = -1;
    bool opened = false;
    std::optional<Clock::time_point> seen_dead;
  };

  [[nodiscard]] bool is_dead(Peer& peer, const shared::RankBlock& rank);
  // Whether the rank died long enough ago for its parent to have said how.
  [[nodiscard]] bool has_died(int world_rank);

  shared::WorldBlock& world_;
  std::mutex mutex_;
  std::vector<Peer> peers_;            // guarded by mutex_
  Clock::time_point looked_for_lost_;  // guarded by mutex_
};

// "rank 1 (pid 4711) was killed by SIGKILL, last in all_reduce(f32, 4096) #16 of group dp".
std::string death_text(shared::WorldBlock& world, int rank, const std::string& how);

}  // namespace tessera
