#include "comm/shm/process_watch.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>

namespace tessera {
namespace {

using shared::RankState;

// Whoever started the process knows how it ended, and says so a moment after.
constexpr std::chrono::milliseconds kMomentForTheParent{100};

// Looking at all ranks takes a system call each.
constexpr std::chrono::milliseconds kBetweenLooks{10};

struct ProcessStat {
  char state = 'X';  // there is no such process
  uint64_t start_ticks = 0;
};

// Nothing when the process exists but cannot be looked at: descriptors have run out.
std::optional<ProcessStat> stat_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  if (!std::getline(file, line)) {
    if (kill(pid, 0) != 0 && errno == ESRCH) return ProcessStat{};
    return std::nullopt;
  }
  // The name in the second field may hold anything, so fields are counted from its last bracket.
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  ProcessStat stat;
  fields >> stat.state;
  std::string skipped;
  for (int i = 0; i < 18; ++i) fields >> skipped;
  fields >> stat.start_ticks;
  return stat;
}

bool is_other_process(const ProcessStat& stat, const shared::RankBlock& rank) {
  return rank.start_ticks != 0 && stat.start_ticks != rank.start_ticks;
}

std::string state_text(char state) {
  switch (state) {
    case 'T':
    case 't':
      return "stopped";
    case 'Z':
    case 'X':
      return "dead";
    case 'D':
      return "waiting for a device";
    default:
      return "running";
  }
}

}  // namespace

uint64_t process_start_ticks(pid_t pid) {
  const std::optional<ProcessStat> stat = stat_of(pid);
  return stat ? stat->start_ticks : 0;
}

std::string death_text(shared::WorldBlock& world, int rank, const std::string& how) {
  const std::string last = shared::last_call(world, rank);
  const int pid = world.rank[rank].pid.load();
  if (pid == 0) return fmt::format("rank {} {} before it joined the others", rank, how);
  return fmt::format("rank {} (pid {}) {}{}", rank, pid, how,
                     last.empty() ? ", before its first collective" : ", last in " + last);
}

ProcessWatch::ProcessWatch(shared::WorldBlock& world) : world_(world), peers_(world.ranks) {}

ProcessWatch::~ProcessWatch() {
  for (const Peer& peer : peers_) {
    if (peer.pidfd >= 0) close(peer.pidfd);
  }
}

bool ProcessWatch::is_dead(Peer& peer, const shared::RankBlock& rank) {
  const pid_t pid = rank.pid.load();
  if (!peer.opened) {
    peer.opened = true;
    peer.pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    if (peer.pidfd < 0 && errno == ESRCH) return true;
    const std::optional<ProcessStat> stat = stat_of(pid);
    if (stat && is_other_process(*stat, rank)) return true;
  }
  if (peer.pidfd >= 0) {
    pollfd poll_fd{.fd = peer.pidfd, .events = POLLIN, .revents = 0};
    return poll(&poll_fd, 1, 0) > 0;
  }
  const std::optional<ProcessStat> stat = stat_of(pid);
  return stat && (stat->state == 'Z' || stat->state == 'X' || is_other_process(*stat, rank));
}

bool ProcessWatch::has_died(int world_rank) {
  Peer& peer = peers_[static_cast<size_t>(world_rank)];
  if (!peer.seen_dead) {
    if (!is_dead(peer, world_.rank[world_rank])) return false;
    peer.seen_dead = Clock::now();
  }
  return Clock::now() - *peer.seen_dead >= kMomentForTheParent;
}

std::optional<std::string> ProcessWatch::gone(int world_rank) {
  const shared::RankBlock& rank = world_.rank[world_rank];
  const auto state = static_cast<RankState>(rank.state.load(std::memory_order_acquire));
  if (rank.death_state.load(std::memory_order_acquire) == 2) {
    return death_text(world_, world_rank, rank.death);
  }
  if (state == RankState::kAbsent) return std::nullopt;
  if (state == RankState::kLeft) {
    return death_text(world_, world_rank, "left while others still wait for it");
  }
  const std::scoped_lock lock(mutex_);
  if (!has_died(world_rank)) return std::nullopt;
  return death_text(world_, world_rank, "died");
}

std::optional<std::string> ProcessWatch::lost() {
  const std::scoped_lock lock(mutex_);
  if (Clock::now() - looked_for_lost_ < kBetweenLooks) return std::nullopt;
  looked_for_lost_ = Clock::now();
  for (int rank = 0; rank < static_cast<int>(world_.ranks); ++rank) {
    const auto state = world_.rank[rank].state.load(std::memory_order_acquire);
    if (static_cast<RankState>(state) != RankState::kAttached) continue;
    if (has_died(rank)) return death_text(world_, rank, "died");
  }
  return std::nullopt;
}

std::string ProcessWatch::describe(int world_rank) {
  const shared::RankBlock& rank = world_.rank[world_rank];
  const auto state = static_cast<RankState>(rank.state.load(std::memory_order_acquire));
  if (state == RankState::kAbsent) return fmt::format("rank {} (not started)", world_rank);
  const std::optional<ProcessStat> stat = stat_of(rank.pid.load());
  return fmt::format("rank {} (pid {}{})", world_rank, rank.pid.load(),
                     stat ? ", " + state_text(stat->state) : "");
}

}  // namespace tessera
