// What a run takes from the machine it is to run on: the device, compute threads, the memory of a
// rank. Everything below this line is told; here the machine is asked.
#pragma once

#include <span>

#include "plan/compile_run.h"

namespace tessera {

// train.device = "auto" becomes what it stands for here. Ranks that are processes do so before they
// compare their run files.
void choose_device(RunSpec& spec);

// Fills what depends on this machine: compute threads per rank, memory per rank. 0 ranks on this
// host: all of them.
void use_machine_defaults(RunSpec& spec, int64_t ranks_on_host = 0);

// compile_run() of a run on this machine. `spec` must have gone through resolve().
CompiledRun compile_here(RunSpec spec);

// Before anything is allocated: the arenas of the ranks that share GPU `gpu`, against what is free
// there. Throws Error with ExitCode::kDoesNotFit and every part.
void require_room_on_gpu(std::span<const Program* const> programs, int gpu);

}  // namespace tessera
