// What a run takes from the machine it is to run on: the device, compute threads, the memory of a
// rank. Everything below this line is told; here the machine is asked.
#pragma once

#include <span>
#include <string>

#include "comm/shm/host_memory.h"
#include "plan/compile_run.h"

namespace tessera {

// What cuBLASLt and cuDNN load on a GPU beside the arenas, at most.
inline constexpr int64_t kGpuLibraryBytes = int64_t{512} << 20;

// train.device = "auto" becomes what it stands for here. Ranks that are processes do so before they
// compare their run files.
void choose_device(RunSpec& spec);

// Fills what depends on this machine: compute threads per rank, memory per rank. 0 ranks on this
// host: all of them. Returns whose memory it is ("this machine's 23.5 GiB, shared by 4 ranks");
// nothing where the run says how much a rank has.
std::string use_machine_defaults(RunSpec& spec, int64_t ranks_on_host = 0);

// What ranks that serve take of this machine where nobody says: threads of each, and memory of all
// of them together, of which some is left for whatever else runs.
struct ServingShare {
  int64_t threads = 1, memory_bytes = 0;
};
ServingShare serving_share(int64_t ranks);

// "this machine's 23.5 GiB, shared by 4 ranks", or the control group's.
std::string shared_memory_text(int64_t bytes, const HostMemory& memory, int64_t sharers);

// compile_run() of a run on this machine. `spec` must have gone through resolve().
CompiledRun compile_here(RunSpec spec);

// Before anything is allocated: the arenas of the ranks that share GPU `gpu`, against what is free
// there. Throws Error with ExitCode::kDoesNotFit and every part.
void require_room_on_gpu(std::span<const Program* const> programs, int gpu);

}  // namespace tessera
