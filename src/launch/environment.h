// Who started this process, and as which rank of which world: told by the environment variables
// that launchers set. Pure: the environment is an argument, read once by the program's main.
//
//   launcher   recognised by                            rank and size
//   agent      TESSERA_RANK                             TESSERA_RANK, TESSERA_WORLD_SIZE
//   Open MPI   OMPI_COMM_WORLD_RANK                     OMPI_COMM_WORLD_RANK, …_SIZE
//   PMI        PMI_RANK (MPICH, Intel MPI)              PMI_RANK, PMI_SIZE
//   torchrun   RANK                                     RANK, WORLD_SIZE
//   Slurm      SLURM_STEP_ID of a step that srun made   SLURM_PROCID, SLURM_STEP_NUM_TASKS
// The first row that applies wins. An empty variable counts as not set.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

using Environment = std::map<std::string, std::string, std::less<>>;

// From `environ`: "NAME=value" texts, ended by a null.
Environment environment_from(const char* const* variables);

// What the agent tells its ranks.
namespace agent_variable {
inline constexpr std::string_view kRank = "TESSERA_RANK";
inline constexpr std::string_view kSize = "TESSERA_WORLD_SIZE";
inline constexpr std::string_view kLocalRank = "TESSERA_LOCAL_RANK";
inline constexpr std::string_view kMemory = "TESSERA_SHM_FD";
inline constexpr std::string_view kToken = "TESSERA_RUN_TOKEN";
inline constexpr std::string_view kGeneration = "TESSERA_GENERATION";
inline constexpr std::string_view kKept = "TESSERA_KEPT_FD";
// Where ranks that serve get their frames from: a socket.
inline constexpr std::string_view kFrames = "TESSERA_FRAMES_FD";
// Where there are ranks on other hosts too.
inline constexpr std::string_view kLocalSize = "TESSERA_LOCAL_SIZE";
inline constexpr std::string_view kAddresses = "TESSERA_RANK_ADDRESSES";  // split by commas
inline constexpr std::string_view kListener = "TESSERA_LISTENER_FD";
inline constexpr std::string_view kMeshKey = "TESSERA_MESH_KEY";
inline constexpr std::string_view kRunId = "TESSERA_RUN_ID";  // 16 hexadecimal digits
}  // namespace agent_variable

enum class Launcher : uint8_t { kNone, kAgent, kOpenMpi, kPmi, kTorchrun, kSlurm };
std::string_view name_of(Launcher launcher);  // for messages: "mpirun (Open MPI)"

struct LaunchContext {
  Launcher launcher = Launcher::kNone;
  int rank = 0;
  int size = 1;
  std::optional<int> local_rank;  // among the ranks of this host, where the launcher says it
  std::optional<int> local_size;

  std::string token;   // tells runs apart: TESSERA_RUN_TOKEN, else what torchrun calls the run
  int shm_fd = -1;     // agent: the ShmMemory that this rank inherited
  int kept_fd = -1;    // agent: a file in memory that generations leave to each other; -1: none
  int frames_fd = -1;  // a server's: where frames come from; -1: it is no rank of one
  int generation = 1;  // agent: how often the ranks of this job have been started

  // agent, with ranks on several hosts: where each of them listens, and what only they know.
  std::vector<std::string> addresses;
  std::string mesh_key;
  int listener_fd = -1;
  uint64_t run_id = 0;

  // torchrun: where ranks that do not know each other meet. A file (TESSERA_RENDEZVOUS_FILE) goes
  // before an address (MASTER_ADDR, MASTER_PORT).
  std::string rendezvous_file;
  std::string master_address;
  int master_port = 0;
  int num_ports = 1;  // rank 0 takes the first free one from master_port on

  // Whether MPI connects the ranks.
  [[nodiscard]] bool by_mpi() const {
    return launcher == Launcher::kOpenMpi || launcher == Launcher::kPmi ||
           launcher == Launcher::kSlurm;
  }
};

// Throws ConfigError for variables that contradict each other, naming them and the fix.
LaunchContext detect_launch(const Environment& environment);

}  // namespace tessera
