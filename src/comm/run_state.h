// What the ranks of a run tell whoever waits for them, so that it knows how long their end may take
// and what it would lose by not waiting.
#pragma once

#include <cstdint>

namespace tessera {

struct RunState {
  int64_t steps_done = 0;
  int64_t longest_step_us = 0;
  int64_t weight_bytes = 0;  // of the file that is written at the end
  bool saving = false;       // the weights are being written
  int64_t saving_us = 0;     // for how long they were when the file last grew
  int64_t saved_step = 0;    // whose weights are in the run directory; 0: none, -1: that failed
};

}  // namespace tessera
