// How long a run that was asked to end may take for it. Pure.
#pragma once

#include <chrono>

#include "comm/run_state.h"

namespace tessera {

// The time from the signal to the end of patience: at least `least`, and enough for the step at
// hand, judged by the longest so far, and for the weights once they are being written: a file that
// grows is waited for, however slow the disk. A run that has not done a step has nothing to lose.
// Safe in a signal handler.
std::chrono::milliseconds stop_time(const RunState& state, std::chrono::milliseconds least);

// What the end will probably take.
std::chrono::milliseconds expected_stop_time(const RunState& state);

}  // namespace tessera
