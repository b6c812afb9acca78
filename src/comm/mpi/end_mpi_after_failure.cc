#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "comm/mpi/mpi_world.h"

namespace tessera {
namespace {

// MPI_Abort makes the launcher kill every rank: those that have just learnt of the failure say what
// they have to say first.
constexpr std::chrono::milliseconds kTimeForLastWords{500};
// It talks to the launcher and may wait for it: this process does not.
constexpr std::chrono::milliseconds kTimeToAbort{1'000};

}  // namespace

void end_mpi_after_failure(int exit_code) {
  std::this_thread::sleep_for(kTimeForLastWords);
  std::thread([exit_code] {
    int started = 0;
    int finished = 0;
    MPI_Initialized(&started);
    MPI_Finalized(&finished);
    if (started != 0 && finished == 0) MPI_Abort(MPI_COMM_WORLD, exit_code);
    _exit(exit_code);
  }).detach();
  std::this_thread::sleep_for(kTimeToAbort);
  _exit(exit_code);
}

}  // namespace tessera
