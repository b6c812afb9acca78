// The weights at the end of a run, whatever became of its directory meanwhile.
#pragma once

#include <functional>
#include <string>

#include "train/session/weights.h"

namespace tessera {

struct FinalWeights {
  std::string path;                 // where they belong
  std::function<void()> make_room;  // rank 0: called once when that fails, before another try there
  std::string rescue_dir;           // where they go if it fails again; empty: nowhere
  int64_t step = 0;                 // that they are of, for messages
};

// Every rank of the control group calls it. Empty when the weights are where they belong; else, on
// every rank, why not, and where they are instead or that they are lost.
std::string save_or_rescue(const FinalWeights& weights, const StepGraph& step,
                           const Executor& executor, Communicator& control);

}  // namespace tessera
