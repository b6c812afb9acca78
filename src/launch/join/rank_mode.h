// How the ranks of a command come to be: as threads of this process, as processes that it starts,
// or as processes that another launcher started, of which this is one.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "comm/world.h"
#include "launch/environment.h"

namespace tessera {

enum class RankMode : uint8_t {
  kThreads,       // all ranks are here
  kAgent,         // this process starts the ranks and watches them
  kAgentRank,     // one rank, started by such a process
  kTorchrunRank,  // one rank, started with torchrun's variables
  kMpiRank,       // one rank, started by mpirun or srun
};

// Whether this process is one rank of several.
constexpr bool is_rank(RankMode mode) {
  return mode != RankMode::kThreads && mode != RankMode::kAgent;
}

// `backend` is "auto", "local", "shm", "mpi" or "nccl"; `world` the number of ranks that the mesh
// has. Throws ConfigError where the backend and the launcher do not go together. Where NCCL
// connects GPUs, the launcher's own backend still connects the processes.
RankMode choose_rank_mode(const std::string& backend, const LaunchContext& context, int64_t world);

// What this host has for ranks that are processes.
struct GpuHost {
  int gpus = 0;
  std::string why_not;        // the first GPU cannot be used; empty: it can
  std::string nccl_obstacle;  // empty: there is none
};
GpuHost look_for_gpus();

// Throws ConfigError unless `ranks` processes of this host can have a GPU each, or may share them.
void require_gpus(const GpuHost& host, int64_t ranks, bool may_share);
// The GPU of this process.
int gpu_of_rank(const GpuHost& host, const LaunchContext& context);
// NCCL refuses ranks of one host that share a GPU: makes this rank a host of its own. Before NCCL
// is first used.
void pretend_own_host(int rank);

struct RankWorldOptions {
  std::chrono::milliseconds timeout{60'000};  // longest wait for a peer
  int busy_threads = 1;                       // of each rank, while one of its threads waits
  std::function<void(const std::string&)> on_warning;
};

// This process's end of the world, where is_rank(mode).
std::unique_ptr<CommWorld> join_world(RankMode mode, const LaunchContext& context,
                                      const RankWorldOptions& options);

}  // namespace tessera
