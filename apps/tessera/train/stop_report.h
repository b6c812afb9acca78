// What a run that a signal stopped says of itself. Pure.
#pragma once

#include <string>

#include "comm/run_state.h"

namespace tessera {

// "finishing step 13, about 4 s; ^C again ends at once"; empty where that is over at once.
std::string finishing_text(const RunState& state);

// "stopped by ^C after step 12; its weights are in runs/demo", or what was lost. Empty where nobody
// reads it (SIGPIPE).
std::string stopped_text(int signal, const RunState& state, const std::string& run_dir);

}  // namespace tessera
