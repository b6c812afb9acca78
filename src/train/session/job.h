// Everything that the ranks of one process read and none changes: what to run, on which text, from
// which weights.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "compile/step.h"
#include "train/samples/batch.h"
#include "train/samples/held_out.h"
#include "train/session/injection.h"
#include "train/weights/weights.h"

namespace tessera {

struct TrainJob {
  StepGraph step;
  std::map<int, Program> programs;  // of the ranks of this process
  nlohmann::ordered_json plan;      // of all ranks; null unless rank 0 is of this process
  Samples samples;
  std::vector<HeldOut> held_out;  // by set
  TensorSource weights;
};

// `spec` must have gone through resolve() and use_machine_defaults(). Only rank 0 needs every
// rank's program, for the plan. Faults are injected after planning.
TrainJob prepare_job(const RunSpec& spec, const Injection& inject, std::span<const int> ranks);

}  // namespace tessera
