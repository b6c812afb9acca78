// What [eval] measures: fixed lists of samples that the run does not train on.
#pragma once

#include <string>
#include <vector>

#include "train/samples/batch.h"

namespace tessera {

struct HeldOut {
  std::string name;  // of the set; empty: it is the only one
  // As for training; samples from `count` on are masked altogether.
  Samples samples;
  int64_t count = 0;    // sequences
  int64_t batches = 0;  // steps of global_batch sequences that an evaluation takes
};

// One for each of data.valid, in its order; for synthetic stories others of their kind. Empty
// without eval.every. Throws ConfigError when data.valid is missing, empty or too short.
std::vector<HeldOut> held_out(const RunSpec& spec);

}  // namespace tessera
