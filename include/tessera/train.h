// Training, with all ranks as threads of this process.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/answer.h"

namespace tessera {

struct Training {
  std::string run_file;          // a path, or a name for `run_text`
  std::string run_text;          // instead of a file: the run in TOML
  std::vector<std::string> set;  // "section.key=value", over the run file
  std::string mesh;              // "dp=2,tp=2"; empty: as in the run file
  bool force = false;            // start although memory or disk are too small
};

struct TrainedStep {
  int64_t step = 0;  // 1 is the first
  int64_t steps = 0;
  double loss = 0;
  double grad_norm = 0;
  double lr = 0;
  double tokens_per_s = 0;
};

// Called after every step, on a thread of the training; false ends it after that step.
using OnTrainedStep = std::function<bool(const TrainedStep&)>;

// Trains and writes the run directory; the answer is its summary.json. What the command looks at
// before it starts is looked at here too: text, weights, device, run directory, memory, disk.
Json train(const Training& training, const OnTrainedStep& on_step = nullptr);

}  // namespace tessera
