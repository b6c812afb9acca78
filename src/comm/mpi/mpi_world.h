// Ranks that are processes started by mpirun, srun or another MPI launcher, on one host or many.
// MPI only carries messages between two ranks; the collectives are comm/message. One world per
// process, as MPI itself allows.
//
// A world that ends in peace ends MPI: its destructor waits for the others, up to the timeout.
// After an abort it gives the reason a moment to reach the others and leaves MPI as it is: the
// process must then end through end_mpi_after_failure, because MPI_Finalize would wait for the
// dead.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "comm/world.h"

namespace tessera {

struct MpiWorldOptions {
  std::chrono::milliseconds timeout{60'000};  // longest wait for a peer, once all have started
  // For all ranks to start, which takes launchers seconds however short the waits are later.
  std::chrono::milliseconds start_timeout{60'000};
  std::chrono::milliseconds slow_after{5'000};              // a wait this long is reported once
  std::function<void(const std::string&)> on_warning = {};  // "rank 2 is slow: …"; null: dropped
};

// Whether this program was built with MPI.
bool mpi_available();

// Starts MPI in this process, which must not have been done before, and meets the other ranks.
// Throws Error where the program was built without MPI, CommError where a rank does not come.
std::unique_ptr<CommWorld> make_mpi_world(const MpiWorldOptions& options);

// Ends this process, and what is left of the job where the launcher obeys, within two seconds.
[[noreturn]] void end_mpi_after_failure(int exit_code);

}  // namespace tessera
