#include "launch/environment.h"

#include <charconv>
#include <limits>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

// Where one launcher puts what every launcher says.
struct Variables {
  Launcher launcher;
  std::string_view rank;
  std::string_view size;
  std::string_view local_rank;
  std::string_view local_size;
};

constexpr Variables kAgent = {Launcher::kAgent, agent_variable::kRank, agent_variable::kSize,
                              agent_variable::kLocalRank, agent_variable::kLocalSize};
constexpr Variables kOpenMpi = {Launcher::kOpenMpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Variables kPmi = {Launcher::kPmi, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
                            "MPI_LOCALNRANKS"};
constexpr Variables kTorchrun = {Launcher::kTorchrun, "RANK", "WORLD_SIZE", "LOCAL_RANK",
                                 "LOCAL_WORLD_SIZE"};
constexpr Variables kSlurm = {Launcher::kSlurm, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
                              "SLURM_LOCALID", ""};

constexpr int64_t kMaxRanks = 1 << 20;
constexpr int64_t kMaxPort = 65535;
// While torchrun keeps a store of its own on MASTER_PORT, rank 0 looks for a port right behind it.
constexpr int kPortsBesideStore = 8;
// Steps that Slurm makes itself (batch script, interactive shell, …) have numbers from here on.
constexpr int64_t kFirstSpecialStep = 0xfffffff0;

std::string_view value_of(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string_view() : std::string_view(found->second);
}

bool is_set(const Environment& environment, std::string_view name) {
  return !value_of(environment, name).empty();
}

int64_t number(const Environment& environment, std::string_view name, int64_t lowest,
               int64_t highest) {
  const std::string_view text = value_of(environment, name);
  int64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = failure == std::errc() && end == text.data() + text.size();
  require_config(whole && value >= lowest && value <= highest,
                 "the environment variable {} is {}, not a whole number from {} to {}: unset it, "
                 "or start the ranks again with their launcher",
                 name, in_quotes(text), lowest, highest);
  return value;
}

int rank_or_size(const Environment& environment, std::string_view name, int64_t lowest) {
  return static_cast<int>(number(environment, name, lowest, kMaxRanks));
}

std::optional<int> optional_rank_or_size(const Environment& environment, std::string_view name,
                                         int64_t lowest) {
  if (name.empty() || !is_set(environment, name)) return std::nullopt;
  return rank_or_size(environment, name, lowest);
}

bool started_by(const Environment& environment, const Variables& names) {
  return is_set(environment, names.rank) || is_set(environment, names.size);
}

void require_both(const Environment& environment, std::string_view one, std::string_view other) {
  for (const auto& [here, absent] : {std::pair(one, other), std::pair(other, one)}) {
    require_config(!is_set(environment, here) || is_set(environment, absent),
                   "the environment variable {} is {} but {} is not set: set both for every rank, "
                   "or neither",
                   here, in_quotes(value_of(environment, here)), absent);
  }
}

LaunchContext read(const Environment& environment, const Variables& names) {
  require_both(environment, names.rank, names.size);
  LaunchContext context;
  context.launcher = names.launcher;
  context.size = rank_or_size(environment, names.size, 1);
  context.rank = rank_or_size(environment, names.rank, 0);
  require_config(context.rank < context.size,
                 "the environment says {}={} and {}={}: ranks go from 0 to {}", names.rank,
                 context.rank, names.size, context.size, context.size - 1);
  context.local_rank = optional_rank_or_size(environment, names.local_rank, 0);
  context.local_size = optional_rank_or_size(environment, names.local_size, 1);
  if (context.local_rank && context.local_size) {
    require_config(*context.local_rank < *context.local_size,
                   "the environment says {}={} and {}={}: local ranks go from 0 to {}",
                   names.local_rank, *context.local_rank, names.local_size, *context.local_size,
                   *context.local_size - 1);
  }
  if (context.local_size) {
    require_config(*context.local_size <= context.size,
                   "the environment says {}={} but {}={}: a host has at most all ranks",
                   names.local_size, *context.local_size, names.size, context.size);
  }
  context.token = value_of(environment, agent_variable::kToken);
  return context;
}

void read_hosts(const Environment& environment, LaunchContext& context) {
  if (!is_set(environment, agent_variable::kAddresses)) return;
  for (const std::string_view address :
       split(value_of(environment, agent_variable::kAddresses), ',')) {
    context.addresses.emplace_back(address);
  }
  context.mesh_key = value_of(environment, agent_variable::kMeshKey);
  context.listener_fd = static_cast<int>(
      number(environment, agent_variable::kListener, 0, std::numeric_limits<int>::max()));
  const std::string_view run = value_of(environment, agent_variable::kRunId);
  const auto [end, failure] =
      std::from_chars(run.data(), run.data() + run.size(), context.run_id, 16);
  require_config(failure == std::errc() && end == run.data() + run.size() &&
                     context.addresses.size() == static_cast<size_t>(context.size) &&
                     context.local_size && context.local_rank,
                 "the environment variables of 'tessera train --hosts' contradict each other: "
                 "unset {}",
                 agent_variable::kRank);
}

LaunchContext read_agent(const Environment& environment) {
  LaunchContext context = read(environment, kAgent);
  require_config(is_set(environment, agent_variable::kMemory),
                 "the environment variable {} is set but {} is not: unset {} (only 'tessera train' "
                 "sets it, for the ranks that it starts)",
                 agent_variable::kRank, agent_variable::kMemory, agent_variable::kRank);
  context.shm_fd = static_cast<int>(
      number(environment, agent_variable::kMemory, 0, std::numeric_limits<int>::max()));
  if (is_set(environment, agent_variable::kKept)) {
    context.kept_fd = static_cast<int>(
        number(environment, agent_variable::kKept, 0, std::numeric_limits<int>::max()));
  }
  if (is_set(environment, agent_variable::kFrames)) {
    context.frames_fd = static_cast<int>(
        number(environment, agent_variable::kFrames, 0, std::numeric_limits<int>::max()));
  }
  if (is_set(environment, agent_variable::kGeneration)) {
    context.generation = static_cast<int>(
        number(environment, agent_variable::kGeneration, 1, std::numeric_limits<int>::max()));
  }
  read_hosts(environment, context);
  return context;
}

LaunchContext read_torchrun(const Environment& environment) {
  LaunchContext context = read(environment, kTorchrun);
  // torchrun calls a run "none" unless it is told a name.
  const std::string_view run = value_of(environment, "TORCHELASTIC_RUN_ID");
  if (context.token.empty() && run != "none") context.token = run;
  context.rendezvous_file = value_of(environment, "TESSERA_RENDEZVOUS_FILE");
  if (context.size == 1 || !context.rendezvous_file.empty()) return context;

  for (const std::string_view name : {"MASTER_ADDR", "MASTER_PORT"}) {
    require_config(is_set(environment, name),
                   "the environment says WORLD_SIZE={} but {} is not set: set MASTER_ADDR and "
                   "MASTER_PORT to where rank 0 listens (or TESSERA_RENDEZVOUS_FILE to a path that "
                   "all ranks see), or unset RANK and WORLD_SIZE",
                   context.size, name);
  }
  context.master_address = value_of(environment, "MASTER_ADDR");
  context.master_port = static_cast<int>(number(environment, "MASTER_PORT", 1, kMaxPort));
  if (value_of(environment, "TORCHELASTIC_USE_AGENT_STORE") == "True" &&
      context.master_port + kPortsBesideStore <= kMaxPort) {
    context.master_port += 1;
    context.num_ports = kPortsBesideStore;
  }
  return context;
}

// A batch script and an interactive shell see SLURM_PROCID and SLURM_NTASKS too, but they are not
// one of several ranks; neither is the shell of `srun --pty`, the only task of its step.
bool started_by_srun(const Environment& environment) {
  if (!is_set(environment, "SLURM_STEP_ID") || !is_set(environment, kSlurm.rank)) return false;
  const int64_t step =
      number(environment, "SLURM_STEP_ID", 0, std::numeric_limits<uint32_t>::max());
  return step < kFirstSpecialStep;
}

LaunchContext read_slurm(const Environment& environment) {
  Variables names = kSlurm;
  if (!is_set(environment, names.size)) names.size = "SLURM_NTASKS";
  const LaunchContext context = read(environment, names);
  return context.size == 1 ? LaunchContext() : context;
}

}  // namespace

Environment environment_from(const char* const* variables) {
  Environment environment;
  for (; variables != nullptr && *variables != nullptr; ++variables) {
    const std::string_view text = *variables;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

std::string_view name_of(Launcher launcher) {
  switch (launcher) {
    case Launcher::kNone:
      return "nobody";
    case Launcher::kAgent:
      return "tessera";
    case Launcher::kOpenMpi:
      return "mpirun (Open MPI)";
    case Launcher::kPmi:
      return "mpirun (PMI)";
    case Launcher::kTorchrun:
      return "torchrun variables";
    case Launcher::kSlurm:
      return "srun";
  }
  return "";
}

LaunchContext detect_launch(const Environment& environment) {
  if (started_by(environment, kAgent)) return read_agent(environment);
  for (const Variables& mpi : {kOpenMpi, kPmi}) {
    if (started_by(environment, mpi)) return read(environment, mpi);
  }
  if (started_by(environment, kTorchrun)) return read_torchrun(environment);
  if (started_by_srun(environment)) return read_slurm(environment);
  return {};
}

}  // namespace tessera
