// From a strategy of the cost model to a run file: the way back of strategy_of_run.h.
#pragma once

#include <string>

#include "cost/step/strategy.h"
#include "spec/run_spec.h"

namespace tessera {

// Empty, or what of the strategy the names of a run file cannot say.
std::string unsayable_choice(const Workload& workload, const Strategy& strategy);

// The strategy in the words of run files, which name the layers of every stage, and whose
// "selective" computes norms and activations again as well. strategy_of_run() of its run file is
// this strategy exactly.
Strategy as_run_files_say(const Workload& workload, Strategy strategy);

// The run file of a strategy without an unsayable choice, for the model that `model.preset` names.
std::string run_file_of(const ModelSpec& model, const Workload& workload, const Strategy& strategy);

}  // namespace tessera
