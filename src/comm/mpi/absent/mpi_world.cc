#include "comm/mpi/mpi_world.h"

#include <unistd.h>

namespace tessera {

bool mpi_available() { return false; }

std::unique_ptr<CommWorld> make_mpi_world(const MpiWorldOptions&) {
  throw ConfigError(
      "this tessera was built without MPI: install it (Debian, Ubuntu: apt-get install openmpi-bin "
      "libopenmpi-dev), then configure and build again");
}

void end_mpi_after_failure(int exit_code) { _exit(exit_code); }

}  // namespace tessera
