// From a strategy of the cost model to a run file: the way back of strategy_of_run.h.
#pragma once

#include <string>
#include <vector>

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
// `cluster`: as --cluster names it, for the file to say; empty: it does not.
std::string run_file_of(const ModelSpec& model, const Workload& workload, const Strategy& strategy,
                        const std::string& cluster = "");

// The same run as flags of `tessera plan`, beside --model and --cluster: "--tp 2 --pp 8 ...".
std::string plan_flags_of(const Workload& workload, const Strategy& strategy);

// Layers by stage, as the run file lists them.
std::vector<int64_t> stage_layers_of(const Workload& workload, const Strategy& strategy);

}  // namespace tessera
