#include "launch/agent/stop_code.h"

#include <csignal>

#include "base/error.h"
#include "launch/agent/child_exit.h"

namespace tessera {

int stop_code(int signal, bool checkpointed) {
  const bool preempted = checkpointed && (signal == SIGTERM || signal == SIGUSR1);
  return preempted ? static_cast<int>(ExitCode::kPreempted) : kSignalCode + signal;
}

}  // namespace tessera
