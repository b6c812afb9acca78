// The exit code of a run that a signal has ended. Pure.
#pragma once

namespace tessera {

// 85 where whoever sent the signal takes the machine away and starts the run again (SIGTERM,
// SIGUSR1), and nothing is lost by that: the last step is in a checkpoint. Else 128 + signal, as
// shells say it.
int stop_code(int signal, bool checkpointed);

}  // namespace tessera
