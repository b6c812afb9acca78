// How the ranks of a command come to be: as threads of this process, as processes that it starts,
// or as processes that another launcher started, of which this is one.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "comm/world.h"
#include "launch/environment.h"
#include "spec/run_spec.h"

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

// `backend` is "auto", "local", "shm" or "mpi"; `world` the number of ranks that the mesh has.
// Throws ConfigError where the backend and the launcher do not go together.
RankMode choose_rank_mode(const std::string& backend, const LaunchContext& context, int64_t world);

// Throws ConfigError, with meshes that fit, unless as many ranks were started as the mesh has.
void require_started_ranks(const RunSpec& spec, const LaunchContext& context);

struct RankWorldOptions {
  std::chrono::milliseconds timeout{60'000};  // longest wait for a peer
  int busy_threads = 1;                       // of each rank, while one of its threads waits
  std::function<void(const std::string&)> on_warning;
};

// This process's end of the world, where is_rank(mode).
std::unique_ptr<CommWorld> join_world(RankMode mode, const LaunchContext& context,
                                      const RankWorldOptions& options);

}  // namespace tessera
