// The weights at the end of a run, whatever became of its directory meanwhile.
#pragma once

#include <functional>
#include <string>

#include "train/weights/weights.h"

namespace tessera {

struct FinalWeights {
  std::string path;  // where they belong
  // Rank 0: called before each of two tries; returns why nothing may be written there, or nothing.
  std::function<std::string()> make_room;
  std::function<void()> on_growth;  // as of try_save_weights
  std::string rescue_dir;           // where they go if both fail; empty: nowhere
  int64_t step = 0;                 // that they are of, for messages
};

// Every rank of the control group calls it. Empty when the weights are where they belong; else, on
// every rank, why not, and where they are instead or that they are lost.
std::string save_or_rescue(const FinalWeights& weights, const StepGraph& step,
                           const Executor& executor, Communicator& control);

}  // namespace tessera
