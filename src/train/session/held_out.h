// What [eval] measures: a fixed list of samples that the run does not train on.
#pragma once

#include "train/session/batch.h"

namespace tessera {

struct HeldOut {
  // As for training; samples from `count` on are masked altogether.
  SampleSource samples;
  int64_t count = 0;    // sequences
  int64_t batches = 0;  // steps of global_batch sequences that an evaluation takes

  [[nodiscard]] bool empty() const { return batches == 0; }
};

// Empty without eval.every. Throws ConfigError when data.valid is missing, empty or too short.
HeldOut held_out(const RunSpec& spec);

}  // namespace tessera
