#include "launch/join/rank_mode.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/text/text.h"
#include "comm/mpi/mpi_world.h"
#include "comm/nccl/nccl_world.h"
#include "comm/shared/layout.h"
#include "comm/shm/shm_world.h"
#include "launch/hosts/hosts_world.h"
#include "launch/join/shm_join.h"
#include "launch/rendezvous/rendezvous.h"
#include "tensor/gpu_memory.h"

namespace tessera {
namespace {

RankMode choose_to_start(const std::string& backend, int64_t world) {
  require_config(backend != "mpi",
                 "--backend mpi needs a launcher that starts the ranks: mpirun -n {} tessera train "
                 "…",
                 world);
  require_config(world <= shared::kMaxRanks,
                 "the mesh has {} ranks, and one host starts {} at most: use a smaller mesh, or "
                 "start them with mpirun (docs/multi-machine.md)",
                 with_thousands(world), shared::kMaxRanks);
  if (backend == "local" || (backend == "auto" && world == 1)) return RankMode::kThreads;
  return RankMode::kAgent;
}

// One of several ranks that somebody else started.
RankMode choose_as_rank(const std::string& backend, const LaunchContext& context) {
  const std::string fitting = context.by_mpi() ? "mpi" : "shm";
  require_config(backend == "auto" || backend == "nccl" || backend == fitting,
                 "--backend {} does not go with {}, which started this process as rank {} of {}: "
                 "leave the flag out, or start tessera once without a launcher",
                 backend, name_of(context.launcher), context.rank, context.size);
  if (context.launcher == Launcher::kAgent) return RankMode::kAgentRank;
  return context.by_mpi() ? RankMode::kMpiRank : RankMode::kTorchrunRank;
}

std::unique_ptr<CommWorld> join_by_torchrun(const LaunchContext& context, ShmWorldOptions world) {
  RendezvousOptions meeting;
  meeting.timeout = world.timeout;
  meeting.on_note = world.on_warning;
  const bool open = context.token.empty() && context.rendezvous_file.empty();
  meeting.objection = [open](int rank, const std::string& text) {
    return objection_to_presence(rank, text, open);
  };
  ShmJoinOptions join;
  join.rank = context.rank;
  join.size = context.size;
  join.world = std::move(world);
  return join_shm_by_rendezvous(*rendezvous_for(context, meeting), join);
}

}  // namespace

RankMode choose_rank_mode(const std::string& backend, const LaunchContext& context, int64_t world) {
  const bool alone = context.size == 1 && world == 1 && context.launcher != Launcher::kAgent;
  if (alone && (backend == "auto" || backend == "local")) return RankMode::kThreads;
  return context.launcher == Launcher::kNone ? choose_to_start(backend, world)
                                             : choose_as_rank(backend, context);
}

GpuHost look_for_gpus() { return {cuda::num_gpus(), cuda::gpu_info(0).why_not, nccl_obstacle()}; }

void require_gpus(const GpuHost& host, int64_t ranks, bool may_share) {
  require_config(host.why_not.empty(), "train.device = \"cuda\": {}; use device = \"cpu\"",
                 host.why_not);
  require_config(may_share || ranks <= host.gpus,
                 "train.device = \"cuda\": {} ranks of this host want a GPU each, and it has {}: "
                 "start fewer ranks here, or add --threads, with which ranks share one GPU",
                 ranks, host.gpus);
  require_config(
      host.nccl_obstacle.empty(),
      "train.device = \"cuda\" with ranks as processes needs NCCL: {}; or add --threads, "
      "with which ranks share one GPU",
      host.nccl_obstacle);
}

int gpu_of_rank(const GpuHost& host, const LaunchContext& context) {
  return context.local_rank.value_or(context.rank) % std::max(1, host.gpus);
}

void pretend_own_host(int rank) {
  setenv("NCCL_HOSTID", fmt::format("tessera-rank-{}", rank).c_str(), 1);
  setenv("NCCL_SOCKET_IFNAME", "lo", 0);
}

std::unique_ptr<CommWorld> join_world(RankMode mode, const LaunchContext& context,
                                      const RankWorldOptions& options) {
  if (mode == RankMode::kMpiRank) {
    return make_mpi_world({.timeout = options.timeout, .on_warning = options.on_warning});
  }
  ShmWorldOptions world;
  world.rank = context.rank;
  world.timeout = options.timeout;
  world.busy_threads = options.busy_threads;
  world.on_warning = options.on_warning;
  if (mode == RankMode::kTorchrunRank) return join_by_torchrun(context, std::move(world));
  TESSERA_CHECK(mode == RankMode::kAgentRank, "no world to join in mode {}",
                static_cast<int>(mode));
  world.fd = context.shm_fd;
  world.answers_for_stacks = true;
  if (context.addresses.empty()) return attach_shm_world(world);
  return make_hosts_world(attach_shm_world(world), context,
                          {.timeout = options.timeout, .on_warning = options.on_warning});
}

}  // namespace tessera
